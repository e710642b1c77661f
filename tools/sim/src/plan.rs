//! What a seed decides before anything runs: the settings, and how each life goes and ends.

use std::{path::PathBuf, time::Duration};

use log::file::Settings;

use crate::dice::Dice;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) sizes: Sizes,
    /// Streams that are made at once in the first life, so that checkpoints are taken in parts.
    pub(crate) crowd: u64,
    pub(crate) lives: Vec<Life>,
}

/// How long messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Mostly short, some longer than a commit.
    Mixed,
    /// All alike: then the frames of all lives of a segment's file stand at the same places.
    Uniform(u64),
}

/// One life of the log, from open to end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) settings: Settings,
    /// How many durable operations each try to open may make before the power goes.
    pub(crate) opening_cuts: Vec<u64>,
    pub(crate) company: Company,
    /// Operations of each actor.
    pub(crate) operations: u64,
    pub(crate) weather: Weather,
    pub(crate) ending: Ending,
    /// Other ways in which the power cut at its end could have gone, to be looked at.
    pub(crate) what_ifs: u64,
}

/// Who uses the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    Everybody,
    /// One writer of equal messages, each in a commit of its own.
    Metronome,
}

/// What goes wrong while the log serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    FailingSyncs,
    FailingWrites,
    /// Only what the log writes in the background fails: no client may notice.
    FailingBackground,
    FullDisk,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The power goes at this moment, or after the work if it does not come.
    PowerCut(Moment),
    /// The log is closed, and opened again without a power cut.
    Close,
    /// The log is closed, and the power goes afterwards.
    CloseThenPowerCut,
}

/// When the power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// During this durable operation of the life.
    Operation(u64),
    /// While the frame is made durable that is the n-th whose records begin at the edge of a
    /// sector: its head may come through without them.
    SectorEdge(u64),
}

impl Plan {
    pub(crate) fn draw(dice: &Dice) -> Self {
        let depth = dice.between(1..=3);
        let dir = ["/var", "lib", "headwater"][..depth as usize].iter().collect();
        if dice.percent(4) {
            let sizes = Sizes::Uniform(dice.between(40..=400));
            let lives = (0..dice.between(2..=4)).map(|_| Life::metronome(dice)).collect();
            return Self { dir, sizes, crowd: 0, lives };
        }
        let sizes = match dice.percent(25) {
            true => Sizes::Uniform(dice.magnitude(16..=600)),
            false => Sizes::Mixed,
        };
        let mut settings = draw_settings(dice);
        let lives = dice.between(2..=6);
        let lives = (0..lives).map(|_| {
            if dice.percent(15) {
                settings = draw_settings(dice);
            }
            Life::draw(dice, settings.clone())
        });
        let lives = lives.collect();
        let crowd = if dice.percent(4) { dice.between(500..=700) } else { 0 };
        Self { dir, sizes, crowd, lives }
    }
}

pub(crate) fn draw_settings(dice: &Dice) -> Settings {
    Settings {
        segment_bytes: 1024 * dice.magnitude(16..=128) as u32,
        hot_bytes_max: 1024 * dice.magnitude(1..=64) as usize,
        requests_max: if dice.percent(10) { 4 } else { 1024 },
        commit_bytes_max: 1024 * dice.between(2..=8) as usize,
        regroup_segments: dice.between(1..=3) as usize,
        segments_max: 64,
        reclaim_after: Duration::from_millis(dice.magnitude(20..=2_000)),
    }
}

impl Life {
    fn draw(dice: &Dice, settings: Settings) -> Self {
        let opening_cuts = match dice.percent(25) {
            true => (0..dice.between(1..=2)).map(|_| dice.magnitude(1..=20)).collect(),
            false => Vec::new(),
        };
        let weather = match dice.between(0..=99) {
            0..50 => Weather::Fair,
            50..63 => Weather::FailingSyncs,
            63..72 => Weather::FailingWrites,
            72..85 => Weather::FailingBackground,
            _ => Weather::FullDisk,
        };
        let ending = match dice.between(0..=99) {
            0..70 => Ending::PowerCut(Moment::Operation(dice.magnitude(1..=1_000))),
            70..90 => Ending::Close,
            _ => Ending::CloseThenPowerCut,
        };
        let what_ifs = if dice.percent(30) { dice.between(1..=3) } else { 0 };
        let (company, operations) = (Company::Everybody, dice.magnitude(10..=240));
        Self { settings, opening_cuts, company, operations, weather, ending, what_ifs }
    }

    fn metronome(dice: &Dice) -> Self {
        let settings = Settings {
            segment_bytes: 16 * 1024,
            commit_bytes_max: 2 * 1024,
            regroup_segments: 1,
            ..draw_settings(dice)
        };
        Self {
            company: Company::Metronome,
            operations: dice.between(200..=500),
            ending: Ending::PowerCut(Moment::SectorEdge(dice.between(2..=8))),
            what_ifs: 10,
            ..Self::calm(settings)
        }
    }

    /// A life in which nothing goes wrong.
    pub(crate) fn calm(settings: Settings) -> Self {
        Self {
            settings,
            opening_cuts: Vec::new(),
            company: Company::Everybody,
            operations: 0,
            weather: Weather::Fair,
            ending: Ending::Close,
            what_ifs: 0,
        }
    }
}

impl Sizes {
    /// Bytes of the next message beyond its tag.
    pub(crate) fn draw(self, dice: &Dice) -> usize {
        let bytes = match self {
            Self::Uniform(bytes) => bytes,
            Self::Mixed if dice.percent(3) => dice.magnitude(2_000..=20_000),
            Self::Mixed => dice.magnitude(1..=600),
        };
        bytes as usize
    }
}
