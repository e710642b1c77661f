//! When a provider is asked again.

use std::time::Duration;

use http::{HeaderMap, header};
use sys::{Chance, UnixMs};

use crate::caps::{PAUSE_FIRST, PAUSE_MAX, RETRY_AFTER_MAX};

/// How long to wait after so many attempts: from half to all of a pause that doubles, so that
/// callers who failed together do not come back together.
pub(crate) fn pause(attempts: u32, chance: &Chance) -> Duration {
    let doubled = PAUSE_FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(16));
    let micros = u64::try_from(doubled.min(PAUSE_MAX).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(micros / 2 + chance.below(micros / 2 + 1))
}

/// How long the provider wants to be left alone.
pub(crate) fn retry_after(headers: &HeaderMap, now: UnixMs) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |text: &str| text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(ms).min(RETRY_AFTER_MAX));
    }
    let after = text(header::RETRY_AFTER.as_str())?;
    let pause = seconds(after).or_else(|| {
        let date = httpdate::parse_http_date(after).ok()?;
        let since_epoch = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(UnixMs::new(0).plus(since_epoch).since(now))
    })?;
    Some(pause.min(RETRY_AFTER_MAX))
}

/// Whether the provider says that another attempt is in vain.
pub(super) fn is_in_vain(headers: &HeaderMap) -> bool {
    headers.get("x-should-retry").is_some_and(|value| value == "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let chance = Chance::seeded(1);
        for attempts in [1, 2, 3, 10, 100, u32::MAX] {
            let full = PAUSE_FIRST.saturating_mul(1 << (attempts - 1).min(16)).min(PAUSE_MAX);
            let drawn = pause(attempts, &chance);
            assert!((full / 2..=full).contains(&drawn), "{attempts}: {drawn:?}");
        }
        assert_ne!(pause(3, &chance), pause(3, &chance));
    }

    #[test]
    fn a_provider_says_when_in_seconds_or_by_a_date() {
        let now = UnixMs::new(784_111_777_000);
        let check = |name: &'static str, value: &str, expect: Option<Duration>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(retry_after(&headers, now), expect, "{value}");
        };
        check("retry-after", "7", Some(Duration::from_secs(7)));
        check("retry-after", "0.5", Some(Duration::from_millis(500)));
        check("retry-after-ms", "1500", Some(Duration::from_millis(1500)));
        check("retry-after", "Sun, 06 Nov 1994 08:49:39 GMT", Some(Duration::from_secs(2)));
        check("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT", Some(Duration::ZERO));
        check("retry-after", "99999999999", Some(RETRY_AFTER_MAX));
        check("retry-after", "-1", None);
        check("retry-after", "soon", None);
    }
}
