//! The corruption stage: a directory that a random history made is damaged, opened, examined,
//! repaired and opened again.
//!
//! Whatever is flipped, cut, removed or doubled: nothing panics, no message is read that was not
//! written there, what is missing is told, and a repair loses nothing that could be read before.

mod anatomy;
mod cell;
mod damage;
mod history;
mod judge;
mod standing;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use log::file::{FileLog, OpenError, Settings, doctor};
use sys::{
    Sys, UnixMs,
    disk::{SimDisk, SimFaults},
};

use self::{
    cell::Cells,
    damage::Damage,
    history::Written,
    judge::{Expect, Readable},
    standing::{Standing, Texts, texts_in},
};
use crate::{
    Coverage, Detail, Outcome,
    dice::Dice,
    history::History,
    oracle::{Verdict, Violation, demand},
    seed::words_of,
};

const DISK_SALT: u64 = 0x636f_7272;
const SYS_SALT: u64 = 0x7570_7400;
const BEGINNING: UnixMs = UnixMs::new(1_900_000_000_000);
const DIR: &str = "/data";

/// What a run of the corruption stage came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptionOutcome {
    /// How it went.
    pub outcome: Outcome,
    /// What it met.
    pub met: CorruptionMet,
}

/// How often something was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorruptionMet {
    /// Logs that opened as if nothing had happened.
    pub unharmed: u64,
    /// Logs that opened and refused some messages.
    pub refused_in_part: u64,
    /// Logs that were refused, and opened after a repair.
    pub repaired: u64,
    /// Logs that neither opened nor could be repaired.
    pub given_up: u64,
    /// Logs that were given up while the disk failed to read, and had everything once it could.
    pub readable_again: u64,
    /// Logs whose newest frames were taken for a torn end.
    pub shortened: u64,
    /// Logs with more than one damage.
    pub damaged_twice: u64,
    /// Logs of which something was set aside, and damaged there.
    pub damaged_aside: u64,
    /// Messages of logs that refused to open, each of which a repair had to keep.
    pub messages_kept: u64,
    /// Appends that were sent again after a repair, and known.
    pub repetitions_known: u64,
    cells: Cells,
}

impl CorruptionMet {
    /// Adds what another run met.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.counts_mut().into_iter().zip(other.clone().counts_mut().map(|one| *one));
        pairs.for_each(|(own, other)| *own += other);
        self.cells.add(&other.cells);
    }

    /// True if everything was met at least once: every outcome, and every damage to every class of
    /// byte of every kind of file.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.clone().counts_mut().iter().all(|count| **count > 0) && self.cells.missing().is_empty()
    }

    fn counts_mut(&mut self) -> [&mut u64; 10] {
        let Self {
            unharmed,
            refused_in_part,
            repaired,
            given_up,
            readable_again,
            shortened,
            damaged_twice,
            damaged_aside,
            messages_kept,
            repetitions_known,
            cells: _,
        } = self;
        [
            unharmed,
            refused_in_part,
            repaired,
            given_up,
            readable_again,
            shortened,
            damaged_twice,
            damaged_aside,
            messages_kept,
            repetitions_known,
        ]
    }
}

/// Runs one seed of the corruption stage.
#[must_use]
pub fn run_corruption(seed: u64) -> CorruptionOutcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let disk = SimDisk::new(seed ^ DISK_SALT, SimFaults::default());
    let scene = runtime.block_on(async { Scene::new(seed, disk.clone()) });
    let mut met = CorruptionMet::default();
    let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(scene.play(&mut met))));
    let violation = match ran {
        Ok(Ok(())) => None,
        Ok(Err(Violation(what))) => Some(what),
        Err(panic) => Some(format!("panic: {}", words_of(panic.as_ref()))),
    };
    let (trace_hash, history) = (disk.trace_hash(), scene.history.lines());
    let coverage = Coverage::default();
    CorruptionOutcome { outcome: Outcome { seed, trace_hash, history, coverage, violation }, met }
}

/// One directory on its way through damage and repair.
struct Scene {
    sys: Sys,
    disk: SimDisk,
    dice: Dice,
    history: History,
    settings: Settings,
    seed: u64,
    /// There are to be segments before the newest, as there are on a busy log.
    keeps_segments: bool,
}

/// What was written, what was done to it, and what may come of that.
struct Case {
    written: Written,
    damages: Vec<Damage>,
    expect: Expect,
    /// What could be read in packs before.
    packed: Texts,
}

impl Case {
    /// The only damage.
    fn single(&self) -> Option<&Damage> {
        self.damages.first().filter(|_| self.damages.len() == 1)
    }
}

impl Scene {
    fn new(seed: u64, disk: SimDisk) -> Self {
        let sys = Sys::simulated(seed ^ SYS_SALT, disk.clone(), BEGINNING);
        let history = History::new(sys.clock.clone(), Detail::Requests);
        let dice = Dice::new(seed);
        let keeps_segments = cell::of_turn(seed).kind == cell::Kind::Segment;
        let settings = Settings {
            segment_bytes: (16 * 1024) << dice.between(0..=u64::from(!keeps_segments)),
            commit_bytes_max: 2 * 1024,
            hot_bytes_max: 0,
            regroup_segments: dice.between(if keeps_segments { 5..=7 } else { 1..=3 }) as usize,
            ..Settings::default()
        };
        Self { sys, disk, dice, history, settings, seed, keeps_segments }
    }

    async fn play(&self, met: &mut CorruptionMet) -> Verdict {
        let written = history::write(self).await?;
        self.history.note(&format!("written: {}", written.describe()));
        self.check_sound(&written).await?;
        let is_double = self.dice.percent(15);
        let packed = texts_in(self, "packs")?;
        let damage = self.damage(Some(self.seed), met)?;
        let mut case = Case { written, expect: damage.expect(), damages: vec![damage], packed };
        if is_double {
            case.damages.push(self.damage(None, met)?);
            let is_doomed = |one: &Damage| one.is_of_format() || one.bars_decisions();
            case.expect = Expect::any(!case.damages.iter().any(is_doomed));
            met.damaged_twice += 1;
        }
        if self.examine_and_open(&case, met).await? {
            return Ok(());
        }
        if case.damages.iter().any(Damage::bars_decisions) {
            // What was refused for want of bytes was not touched, and is there when they are.
            self.disk.heal();
            self.history.note("the disk reads again");
            let can_be_repaired = !case.damages.iter().any(Damage::is_of_format);
            case.expect = match case.single() {
                Some(_) => Expect::nothing(),
                None => Expect::any(can_be_repaired),
            };
            if self.examine_and_open(&case, met).await? {
                met.readable_again += 1;
            }
        }
        Ok(())
    }

    fn damage(&self, turn: Option<u64>, met: &mut CorruptionMet) -> Verdict<Damage> {
        let damage = Damage::draw(self, turn);
        damage.inflict(self)?;
        self.history.note(&format!("{damage:?}"));
        met.cells.count(damage.cell);
        Ok(damage)
    }

    /// Without damage everything is there, and the doctor has nothing to say.
    async fn check_sound(&self, written: &Written) -> Verdict {
        let report = self.examine()?.map_err(|error| Violation(format!("{error}")))?;
        demand(report.findings.is_empty(), || format!("before any damage: {report:?}"))?;
        let log = self.open().await.map_err(|error| Violation(format!("{error}")))?;
        let found = Readable::read(&log, self.tail_bytes()).await?;
        log.close().await;
        found.judge(written, Expect::nothing())
    }

    /// False if it neither opens nor can be repaired.
    async fn examine_and_open(&self, case: &Case, met: &mut CorruptionMet) -> Verdict<bool> {
        let before = self.examine()?;
        let is_sound = matches!(&before, Ok(report) if report.is_sound());
        if let Ok(report) = &before {
            self.history.note(&format!("{:?}", report.findings));
            case.expect.judge_report(report, &case.damages)?;
        }
        let standing = match is_sound {
            true => None,
            false => Standing::of(self, &case.written, &case.packed, case.single())?,
        };
        let opened = self.open().await;
        match opened {
            Ok(log) => {
                let found = Readable::read(&log, self.tail_bytes()).await?;
                log.close().await;
                found.judge(&case.written, case.expect)?;
                let is_whole = found.is_whole();
                // Damage may also stand where no reader can come.
                demand(is_whole || !is_sound, || {
                    format!("the doctor finds nothing, but what is lost is {:?}", found.lost())
                })?;
                demand(is_sound || !is_whole || case.expect.may_refuse, || {
                    format!("nothing is lost, but the doctor says {before:?}")
                })?;
                match (is_whole, found.is_all_of(&case.written)) {
                    (true, true) => met.unharmed += 1,
                    (true, false) => met.shortened += 1,
                    (false, _) => met.refused_in_part += 1,
                }
                self.repair(case, Some(&found), None, met).await
            }
            Err(error) => {
                self.history.note(&format!("refused: {error}"));
                demand(!is_sound, || format!("the doctor finds nothing, but: {error}"))?;
                demand(!case.expect.must_open, || format!("it should open, but: {error}"))?;
                let is_repaired = self.repair(case, None, standing.as_ref(), met).await?;
                match is_repaired {
                    true => met.repaired += 1,
                    false => met.given_up += 1,
                }
                Ok(is_repaired)
            }
        }
    }

    /// Repairs; what could be read before can be read after it. False if nothing can be done.
    async fn repair(
        &self,
        case: &Case,
        before: Option<&Readable>,
        standing: Option<&Standing>,
        met: &mut CorruptionMet,
    ) -> Verdict<bool> {
        let ops = self.disk.op_count();
        match doctor::repair(&self.sys, Path::new(DIR)) {
            Ok(done) => self.history.note(&format!("repaired: {done:?}")),
            Err(error) => {
                self.history.note(&format!("no repair: {error}"));
                demand(before.is_none() && !case.expect.can_be_repaired, || format!("{error}"))?;
                match standing {
                    Some(standing) => standing.judge_untouched(self)?,
                    None => demand(self.disk.op_count() == ops, || {
                        "a repair that cannot read a byte wrote something".to_owned()
                    })?,
                }
                return Ok(false);
            }
        }
        let expect = case.expect.after_repair(before.is_some());
        let opened = self.open().await;
        let log = opened.map_err(|error| Violation(format!("after a repair: {error}")))?;
        let after = Readable::read(&log, self.tail_bytes()).await?;
        self.history.note(&format!("found: {}", after.describe()));
        after.judge(&case.written, expect)?;
        if expect.keeps_all {
            after.judge_all_kept(&case.written, &case.packed)?;
        }
        if let Some(before) = before {
            before.is_part_of(&after)?;
        }
        if let Some(standing) = standing.filter(|_| before.is_none()) {
            standing.judge(self, &after)?;
            met.messages_kept += standing.count() as u64;
        }
        let known = history::send_again(&log, &case.written, &after, case.expect).await?;
        met.repetitions_known += known;
        self.goes_on(&log).await?;
        log.close().await;
        let again = self.check_later(&after, standing.filter(|_| before.is_none()), expect).await?;
        self.damage_aside(&again, &case.written, met).await?;
        Ok(true)
    }

    /// What was there after the repair is there after more writes, regrouping and a restart.
    async fn check_later(
        &self,
        after: &Readable,
        standing: Option<&Standing>,
        expect: Expect,
    ) -> Verdict<Readable> {
        let again = self.read_again().await?;
        after.is_part_of(&again)?;
        if let Some(standing) = standing {
            standing.judge(self, &again)?;
        }
        let report = self.examine()?.map_err(|error| Violation(format!("repaired: {error}")))?;
        let is_whole = again.is_whole();
        demand(is_whole || !report.is_sound(), || {
            format!("the doctor finds nothing after a repair, but {:?} is lost", again.lost())
        })?;
        demand(report.is_sound() || !is_whole || expect.may_refuse, || {
            format!("after a repair: {:?}", report.findings)
        })?;
        Ok(again)
    }

    async fn read_again(&self) -> Verdict<Readable> {
        let again = self.open().await;
        let log = again.map_err(|error| Violation(format!("opened again: {error}")))?;
        let again = Readable::read(&log, self.tail_bytes()).await?;
        log.close().await;
        Ok(again)
    }

    /// What was set aside is no part of the log, whatever becomes of it.
    async fn damage_aside(
        &self,
        before: &Readable,
        written: &Written,
        met: &mut CorruptionMet,
    ) -> Verdict {
        let Some(damage) = Damage::draw_set_aside(self) else { return Ok(()) };
        damage.inflict(self)?;
        self.history.note(&format!("{damage:?}"));
        met.cells.count(damage.cell);
        met.damaged_aside += 1;
        before.is_part_of(&self.read_again().await?)?;
        let report = self.examine()?.map_err(|error| Violation(format!("set aside: {error}")))?;
        demand(report.is_sound() == before.is_whole() || !report.is_sound(), || {
            format!("{:?}", report.findings)
        })?;
        let texts = texts_in(self, "lost+found")?;
        let invented = texts.iter().find(|text| !written.knows(text));
        demand(invented.is_none(), || format!("salvaged, and never written: {invented:?}"))
    }

    /// A log that was opened takes writes, and regroups.
    async fn goes_on(&self, log: &FileLog) -> Verdict {
        history::write_more(self, log).await
    }

    fn examine(&self) -> Verdict<Result<doctor::Report, OpenError>> {
        let traced = self.disk.op_count();
        let report = doctor::examine(&self.sys, Path::new(DIR));
        demand(self.disk.op_count() == traced, || "an examination wrote something".to_owned())?;
        Ok(report)
    }

    async fn open(&self) -> Result<FileLog, OpenError> {
        FileLog::open(&self.sys, Path::new(DIR), self.settings.clone()).await
    }

    /// Bytes of one read: sometimes few, sometimes all.
    fn tail_bytes(&self) -> usize {
        self.dice.magnitude(100..=100_000) as usize
    }
}
