//! How much of the unsynced work a power cut lets through.

use crate::Chance;

/// One power cut's mercy towards one file, or towards the names.
///
/// Some cuts take everything and some nothing; the others draw for each change, at odds of their
/// own, so that both "all but one" and "none but one" happen.
#[derive(Debug)]
pub(super) struct Survival {
    /// Nobody needs to be asked when all survives.
    odds: Option<Odds>,
}

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFate {
    Kept,
    Lost,
    /// Each sector for itself.
    Torn,
}

#[derive(Debug)]
struct Odds {
    chance: Chance,
    kept_percent: u64,
}

impl Survival {
    /// Everything survives.
    pub(super) const fn complete() -> Self {
        Self { odds: None }
    }

    pub(super) fn draw(chance: &Chance) -> Self {
        let kept_percent = match chance.below(4) {
            0 => 0,
            1 => 100,
            _ => 1 + chance.below(99),
        };
        Self { odds: Some(Odds { chance: chance.clone(), kept_percent }) }
    }

    /// Whether one change that cannot be torn survives.
    pub(super) fn keeps(&self) -> bool {
        self.odds.as_ref().is_none_or(Odds::keep)
    }

    pub(super) fn fate_of_write(&self) -> WriteFate {
        match &self.odds {
            Some(odds) if odds.are_mixed() && odds.chance.below(4) == 0 => WriteFate::Torn,
            _ if self.keeps() => WriteFate::Kept,
            _ => WriteFate::Lost,
        }
    }

    /// Whether one sector of a write with `fate` survives.
    pub(super) fn spares_sector(&self, fate: WriteFate) -> bool {
        match fate {
            WriteFate::Kept => true,
            WriteFate::Lost => false,
            WriteFate::Torn => self.odds.as_ref().is_none_or(|odds| odds.chance.below(2) == 0),
        }
    }

    /// How many of `count` changes survive, where none survives without those before it.
    pub(super) fn prefix_of(&self, count: usize) -> usize {
        match &self.odds {
            None => count,
            Some(odds) if odds.are_mixed() => odds.chance.below(count as u64 + 1) as usize,
            Some(odds) if odds.keep() => count,
            Some(_) => 0,
        }
    }
}

impl Odds {
    fn keep(&self) -> bool {
        self.chance.below(100) < self.kept_percent
    }

    fn are_mixed(&self) -> bool {
        (1..100).contains(&self.kept_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_survival_loses_nothing() {
        let survival = Survival::complete();
        assert!(survival.keeps());
        assert_eq!(survival.fate_of_write(), WriteFate::Kept);
        assert_eq!(survival.prefix_of(9), 9);
    }

    #[test]
    fn cuts_range_from_total_loss_to_none_with_torn_writes_between() {
        let (mut total, mut none, mut torn) = (0, 0, 0);
        for seed in 0..200 {
            let survival = Survival::draw(&Chance::seeded(seed));
            let fates: Vec<_> = (0..32).map(|_| survival.fate_of_write()).collect();
            total += u32::from(fates.iter().all(|&fate| fate == WriteFate::Lost));
            none += u32::from(fates.iter().all(|&fate| fate == WriteFate::Kept));
            torn += u32::from(fates.contains(&WriteFate::Torn));
        }
        assert!(total > 20 && none > 20 && torn > 50, "{total} {none} {torn}");
    }
}
