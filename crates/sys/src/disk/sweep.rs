//! Sweeps: lives that are killed at each of their durable writes, for crash tests.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::{KillMode, KillPoint};

/// How a life ended that was to be killed. Whatever else becomes of one is a failure of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By the kill, in the middle of what it did.
    Killed,
    /// It did all it was to do, in fewer writes than the one it was to be killed at.
    Whole,
}

/// Lives that must come to their end at one point before a sweep believes that there are no writes
/// left to kill at. How many a life has varies a little with what goes on in the background.
const WHOLE_LIVES: usize = 3;

/// Kills a life at its first durable write, others at the second, the third and so on, before it
/// and in the middle of it, until one comes to its end, and two more like it: so every write before
/// that has killed, in both ways. Tells how many there were. `hands` lives go on at a time.
pub fn sweep(hands: usize, live: impl Fn(KillPoint) -> End + Sync) -> u64 {
    let (next, first_whole) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let mode = if number % 2 == 0 { KillMode::Before } else { KillMode::Torn };
            let point = KillPoint { at: 1 + number / 2, mode };
            if point.at >= first_whole.load(Ordering::Relaxed) {
                return;
            }
            if (0..WHOLE_LIVES).all(|_| live(point) == End::Whole) {
                first_whole.fetch_min(point.at, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..hands.max(1) {
            scope.spawn(work);
        }
    });
    first_whole.into_inner() - 1
}

/// `12`, or `12:torn`.
impl fmt::Display for KillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode {
            KillMode::Before => write!(f, "{}", self.at),
            KillMode::Torn => write!(f, "{}:torn", self.at),
        }
    }
}

/// Not a place to die at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKillPoint(pub String);

impl fmt::Display for BadKillPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no write to die at; use 17 or 17:torn", self.0)
    }
}

impl std::error::Error for BadKillPoint {}

impl FromStr for KillPoint {
    type Err = BadKillPoint;

    fn from_str(text: &str) -> Result<Self, BadKillPoint> {
        let (number, mode) = match text.strip_suffix(":torn") {
            Some(number) => (number, KillMode::Torn),
            None => (text, KillMode::Before),
        };
        let at = number.parse().ok().filter(|at| *at > 0);
        Ok(Self { at: at.ok_or_else(|| BadKillPoint(text.to_owned()))?, mode })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Mutex};

    use super::*;

    #[test]
    fn a_sweep_kills_at_every_write_in_both_ways_until_a_life_is_whole() {
        for hands in [1, 4] {
            let killed = Mutex::new(BTreeSet::new());
            let writes = sweep(hands, |point| {
                if point.at > 7 {
                    return End::Whole;
                }
                killed.lock().unwrap().insert(point.to_string());
                End::Killed
            });
            let killed = killed.into_inner().unwrap();
            let all = (1..=7).flat_map(|at| [format!("{at}"), format!("{at}:torn")]);
            assert_eq!((writes, killed), (7, all.collect()));
        }
    }

    #[test]
    fn a_life_that_is_whole_too_early_ends_the_sweep() {
        let end = |at| if at == 3 { End::Whole } else { End::Killed };
        assert_eq!(sweep(1, |point| end(point.at)), 2);
    }

    #[test]
    fn a_life_that_has_fewer_writes_than_others_does_not_end_the_sweep() {
        let lives = AtomicU64::new(0);
        let killed = sweep(1, |point| {
            let is_short = lives.fetch_add(1, Ordering::Relaxed) % WHOLE_LIVES as u64 == 2;
            if point.at > if is_short { 3 } else { 5 } { End::Whole } else { End::Killed }
        });
        assert_eq!(killed, 5);
    }

    #[test]
    fn a_point_is_read_as_it_is_written() {
        for text in ["1", "12:torn"] {
            assert_eq!(text.parse::<KillPoint>().unwrap().to_string(), text);
        }
        for bad in ["", "0", "-1", "torn", "1:", "1:half", "x:torn", "1:torn:torn", "1torn"] {
            bad.parse::<KillPoint>().unwrap_err();
        }
    }
}
