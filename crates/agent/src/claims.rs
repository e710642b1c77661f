//! Who does the work of a row: claims as inserted rows, and what follows from them.

use std::time::Duration;

use live::from;
use sys::UnixMs;
use wire::Timestamp;

use crate::{
    caps::CLAIM_SLACK,
    rows::{Claim, now},
    table::{Table, TableError},
};

/// How far the work of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Somebody should do it.
    Open,
    /// Somebody does it, or has died of it.
    UnderWay,
    /// There is nothing to do.
    Over,
}

/// The newest attempt that somebody has claimed, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) attempt: u32,
    pub(crate) until: UnixMs,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) phase: Phase,
    /// The attempt that the row tells of.
    pub(crate) attempt: u32,
    /// Whether the row says that we do it, which can only have been in an earlier life.
    pub(crate) is_ours: bool,
}

/// Who else may do the work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rivals {
    /// Nobody: the rows are for us alone.
    None,
    /// Whoever claims first; this is the claim that counts, if there is one.
    Claims(Option<Standing>),
}

/// What to do about a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Make this attempt.
    Take(Turn),
    /// Somebody may be at it. Look again then.
    LookAt(UnixMs),
    /// Nothing.
    Leave,
}

/// An attempt at the work of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) attempt: u32,
    /// Whether an earlier attempt may have run.
    pub(crate) is_recovery: bool,
}

/// Decides what to do about a row.
pub(crate) fn next(known: Known, rivals: Rivals, now: UnixMs) -> Next {
    let take = |attempt: u32, is_recovery| {
        Next::Take(Turn { attempt: attempt.saturating_add(1), is_recovery })
    };
    let is_under_way = match known.phase {
        Phase::Over => return Next::Leave,
        Phase::UnderWay => true,
        Phase::Open => false,
    };
    match rivals {
        Rivals::None if is_under_way && !known.is_ours => Next::Leave,
        Rivals::None => take(known.attempt, is_under_way),
        // It does not run under a claim, so nobody can tell when it is given up.
        Rivals::Claims(None) if is_under_way => Next::Leave,
        Rivals::Claims(None) => take(known.attempt, false),
        Rivals::Claims(Some(claim)) if !is_under_way && claim.attempt <= known.attempt => {
            take(known.attempt, false)
        }
        Rivals::Claims(Some(claim)) => {
            let lapses = claim.until.plus(CLAIM_SLACK);
            match now < lapses {
                true => Next::LookAt(lapses),
                // A row that is still open was never run: its executor first says that it begins.
                false => take(claim.attempt.max(known.attempt), is_under_way),
            }
        }
    }
}

/// The claims of one stream, and in whose name they are made here.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    table: Table<Claim>,
    by: String,
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Won { until: UnixMs },
    Lost { until: UnixMs },
}

/// Claims that are not in an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(
        "the claim {id:?} has no position, so nobody can tell who was first; claims need rows of a \
         stream"
    )]
    NoPosition { id: String },
}

impl Claims {
    pub(crate) fn new(table: Table<Claim>, by: String) -> Self {
        Self { table, by }
    }

    pub(crate) fn by(&self) -> &str {
        &self.by
    }

    /// The claim that counts for the newest attempt at the work of a row.
    pub(crate) fn standing(&self, of: &str) -> Result<Option<Standing>, ClaimError> {
        let claims = self.table.db().once(from::<Claim>().filter(Claim::of.eq(of)).synced());
        let claims = claims.map_err(TableError::from)?;
        let Some(attempt) = claims.iter().map(|claim| claim.attempt).max() else {
            return Ok(None);
        };
        let first = self.first(of, attempt)?;
        Ok(first.map(|(_, until)| Standing { attempt, until }))
    }

    /// Claims an attempt, and tells who has it once that is settled.
    pub(crate) async fn claim(
        &self,
        of: &str,
        attempt: u32,
        lease: Duration,
    ) -> Result<Claimed, ClaimError> {
        let sys = self.table.sys();
        let until = sys.clock.unix_ms().plus(lease);
        let claim = Claim {
            id: format!("{of}#{attempt}@{}", self.by),
            of: of.to_owned(),
            attempt,
            by: self.by.clone(),
            until: Timestamp::from_unix_ms(until.get()).to_string(),
            created_at: now(sys),
        };
        if let Some((_, until)) = self.first(of, attempt)? {
            return Ok(Claimed::Lost { until });
        }
        self.table.insert(vec![claim]).await?;
        Ok(match self.first(of, attempt)? {
            Some((by, _)) if by == self.by => Claimed::Won { until },
            Some((_, until)) => Claimed::Lost { until },
            None => Claimed::Lost { until },
        })
    }

    /// Whether nobody has claimed a later attempt.
    pub(crate) fn is_newest(&self, of: &str, attempt: u32) -> Result<bool, ClaimError> {
        Ok(self.standing(of)?.is_none_or(|standing| standing.attempt <= attempt))
    }

    /// The first claim of an attempt: by whom, and until when.
    fn first(&self, of: &str, attempt: u32) -> Result<Option<(String, UnixMs)>, ClaimError> {
        let ours =
            from::<Claim>().filter(Claim::of.eq(of)).filter(Claim::attempt.eq(attempt)).synced();
        let mut first = None;
        for claim in self.table.db().once(ours).map_err(TableError::from)? {
            let Some(position) = claim.meta().position else {
                return Err(ClaimError::NoPosition { id: claim.id.clone() });
            };
            if first.as_ref().is_none_or(|(lowest, _)| position < *lowest) {
                first = Some((position, claim));
            }
        }
        Ok(first.map(|(_, claim)| {
            // A time that nobody can read is none that anybody may wait for.
            let until = claim.until.parse::<Timestamp>().map_or(0, Timestamp::unix_ms);
            (claim.by.clone(), UnixMs::new(until))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = UnixMs::new(100_000);

    fn check(phase: Phase, attempt: u32, rivals: Rivals, expected: Next) {
        let known = Known { phase, attempt, is_ours: false };
        assert_eq!(next(known, rivals, NOW), expected, "{phase:?} {attempt} {rivals:?}");
    }

    fn claim(attempt: u32, until: u64) -> Rivals {
        Rivals::Claims(Some(Standing { attempt, until: UnixMs::new(until) }))
    }

    fn take(attempt: u32, is_recovery: bool) -> Next {
        Next::Take(Turn { attempt, is_recovery })
    }

    #[test]
    fn alone_everything_open_is_taken_and_only_our_own_is_taken_up_again() {
        check(Phase::Open, 0, Rivals::None, take(1, false));
        check(Phase::Open, 2, Rivals::None, take(3, false));
        check(Phase::UnderWay, 1, Rivals::None, Next::Leave);
        check(Phase::Over, 1, Rivals::None, Next::Leave);
        let ours = Known { phase: Phase::UnderWay, attempt: 1, is_ours: true };
        assert_eq!(next(ours, Rivals::None, NOW), take(2, true));
    }

    #[test]
    fn a_claim_holds_until_it_lapses() {
        let lapsed = NOW.get() - u64::try_from(CLAIM_SLACK.as_millis()).unwrap();
        let holds = UnixMs::new(lapsed + 1).plus(CLAIM_SLACK);
        check(Phase::Open, 0, Rivals::Claims(None), take(1, false));
        check(Phase::UnderWay, 1, Rivals::Claims(None), Next::Leave);
        check(Phase::Open, 0, claim(1, lapsed + 1), Next::LookAt(holds));
        check(Phase::Open, 0, claim(1, lapsed), take(2, false));
        check(Phase::UnderWay, 1, claim(1, lapsed + 1), Next::LookAt(holds));
        check(Phase::UnderWay, 1, claim(1, lapsed), take(2, true));
        check(Phase::UnderWay, 1, claim(2, lapsed + 1), Next::LookAt(holds));
        check(Phase::UnderWay, 1, claim(3, lapsed), take(4, true));
        check(Phase::Over, 1, claim(1, lapsed), Next::Leave);
    }

    #[test]
    fn a_row_that_was_opened_again_needs_a_new_claim_at_once() {
        check(Phase::Open, 1, claim(1, NOW.get() + 60_000), take(2, false));
    }
}
