//! The corruption stage: a directory that a random history made is damaged, opened, examined,
//! repaired and opened again.
//!
//! Whatever is flipped, cut, removed or doubled: nothing panics, no message is read that was not
//! written there, what is missing is told, and a repair loses nothing that could be read before.

mod damage;
mod history;
mod judge;

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
    damage::Damage,
    history::Written,
    judge::{Expect, Readable},
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CorruptionMet {
    /// Logs that opened as if nothing had happened.
    pub unharmed: u64,
    /// Logs that opened and refused some messages.
    pub refused_in_part: u64,
    /// Logs that were refused, and opened after a repair.
    pub repaired: u64,
    /// Logs that neither opened nor could be repaired.
    pub given_up: u64,
    /// Logs whose newest frames were taken for a torn end.
    pub shortened: u64,
    /// Logs with more than one damage.
    pub damaged_twice: u64,
}

impl CorruptionMet {
    /// Adds what another run met.
    pub fn add(&mut self, other: &Self) {
        self.unharmed += other.unharmed;
        self.refused_in_part += other.refused_in_part;
        self.repaired += other.repaired;
        self.given_up += other.given_up;
        self.shortened += other.shortened;
        self.damaged_twice += other.damaged_twice;
    }

    /// True if everything was met at least once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Self { unharmed, refused_in_part, repaired, given_up, shortened, damaged_twice } =
            *self;
        let all = [unharmed, refused_in_part, repaired, given_up, shortened, damaged_twice];
        all.iter().all(|count| *count > 0)
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
}

impl Scene {
    fn new(seed: u64, disk: SimDisk) -> Self {
        let sys = Sys::simulated(seed ^ SYS_SALT, disk.clone(), BEGINNING);
        let history = History::new(sys.clock.clone(), Detail::Requests);
        let dice = Dice::new(seed);
        let settings = Settings {
            segment_bytes: (16 * 1024) << dice.between(0..=1),
            commit_bytes_max: 2 * 1024,
            hot_bytes_max: 0,
            regroup_segments: dice.between(1..=3) as usize,
            ..Settings::default()
        };
        Self { sys, disk, dice, history, settings }
    }

    async fn play(&self, met: &mut CorruptionMet) -> Verdict {
        let written = history::write(self).await?;
        self.check_sound(&written).await?;
        let damage = Damage::draw(self, DIR);
        damage.inflict(self)?;
        self.history.note(&format!("{damage:?}"));
        let mut expect = damage.expect();
        if self.dice.percent(15) {
            let second = Damage::draw(self, DIR);
            second.inflict(self)?;
            self.history.note(&format!("{second:?}"));
            expect = Expect::any(!damage.is_of_format() && !second.is_of_format());
            met.damaged_twice += 1;
        }
        self.examine_and_open(&written, &damage, expect, met).await
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

    async fn examine_and_open(
        &self,
        written: &Written,
        damage: &Damage,
        expect: Expect,
        met: &mut CorruptionMet,
    ) -> Verdict {
        let before = self.examine()?;
        let is_sound = matches!(&before, Ok(report) if report.is_sound());
        if let Ok(report) = &before {
            self.history.note(&format!("{:?}", report.findings));
            expect.judge_report(report, damage)?;
        }
        match self.open().await {
            Ok(log) => {
                let found = Readable::read(&log, self.tail_bytes()).await?;
                log.close().await;
                found.judge(written, expect)?;
                let is_whole = found.is_whole();
                // Damage may also stand where no reader can come.
                demand(is_whole || !is_sound, || {
                    format!("the doctor finds nothing, but what is lost is {:?}", found.lost())
                })?;
                demand(is_sound || !is_whole || expect.may_refuse, || {
                    format!("nothing is lost, but the doctor says {before:?}")
                })?;
                match (is_whole, found.is_all_of(written)) {
                    (true, true) => met.unharmed += 1,
                    (true, false) => met.shortened += 1,
                    (false, _) => met.refused_in_part += 1,
                }
                self.repair(written, expect, Some(&found)).await.map(drop)
            }
            Err(error) => {
                self.history.note(&format!("refused: {error}"));
                demand(!is_sound, || format!("the doctor finds nothing, but: {error}"))?;
                demand(!expect.must_open, || format!("it should open, but: {error}"))?;
                match self.repair(written, expect, None).await? {
                    true => met.repaired += 1,
                    false => met.given_up += 1,
                }
                Ok(())
            }
        }
    }

    /// Repairs; what could be read before can be read after it. False if nothing can be done.
    async fn repair(
        &self,
        written: &Written,
        expect: Expect,
        before: Option<&Readable>,
    ) -> Verdict<bool> {
        match doctor::repair(&self.sys, Path::new(DIR)) {
            Ok(done) => self.history.note(&format!("repaired: {done:?}")),
            Err(error) => {
                self.history.note(&format!("no repair: {error}"));
                demand(before.is_none() && !expect.can_be_repaired, || format!("{error}"))?;
                return Ok(false);
            }
        }
        let opened = self.open().await;
        let log = opened.map_err(|error| Violation(format!("after a repair: {error}")))?;
        let after = Readable::read(&log, self.tail_bytes()).await?;
        after.judge(written, expect.after_repair(before.is_some()))?;
        if let Some(before) = before {
            before.is_part_of(&after)?;
        }
        self.goes_on(&log).await?;
        log.close().await;
        let again = self.open().await;
        let log = again.map_err(|error| Violation(format!("opened again: {error}")))?;
        let again = Readable::read(&log, self.tail_bytes()).await?;
        log.close().await;
        after.is_part_of(&again)?;
        Ok(true)
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
