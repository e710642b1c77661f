//! Moments: texts and numbers that stand for a point in time, in UTC.

use jiff::{Timestamp, civil, fmt::strtime, tz::TimeZone};

use crate::{caps::FORMAT_BYTES_MAX, value::Value};

/// The moment that a value stands for: milliseconds since 1970, an RFC 3339 text, or a date.
pub(super) fn read(value: &Value) -> Option<Timestamp> {
    if let Some(text) = value.as_text() {
        let whole = || text.parse::<Timestamp>().ok();
        let local = || text.parse::<civil::DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
        return whole().or_else(|| local().map(|zoned| zoned.timestamp()));
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is too large is refused below")]
    let millisecond = value.as_number().filter(|number| number.is_finite())? as i64;
    Timestamp::from_millisecond(millisecond).ok()
}

/// `2026-11-16`
pub(super) fn date(moment: Timestamp) -> Value {
    format("%Y-%m-%d", moment)
}

/// `2026-11-16T07:28:11.000Z`
pub(super) fn datetime(moment: Timestamp) -> Value {
    format("%Y-%m-%dT%H:%M:%S.%3fZ", moment)
}

/// As `strftime` has it; `null` if the format makes no sense.
pub(super) fn format(format: &str, moment: Timestamp) -> Value {
    if format.len() > FORMAT_BYTES_MAX {
        return Value::Null;
    }
    strtime::format(format, &moment.to_zoned(TimeZone::UTC)).map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_cannot_ask_for_ever_more() {
        let year = |times: usize| format(&"%255Y".repeat(times), Timestamp::UNIX_EPOCH);
        assert_eq!(year(4).as_text().map(|text| text.len()), Some(4 * 20));
        assert_eq!(year(FORMAT_BYTES_MAX), Value::Null);
    }

    #[test]
    fn moments_are_read_and_written_in_utc() {
        let written = |value: Value| read(&value).map(datetime);
        let expected = Some(Value::from("2024-02-29T12:30:00.000Z"));
        assert_eq!(written("2024-02-29T12:30:00Z".into()), expected);
        assert_eq!(written("2024-02-29T14:30:00+02:00".into()), expected);
        assert_eq!(written("2024-02-29T12:30:00".into()), expected);
        assert_eq!(written(Value::Int(1_709_209_800_000)), expected);
        assert_eq!(read(&"2024-02-29".into()).map(date), Some(Value::from("2024-02-29")));
        for no_moment in [Value::Null, "soon".into(), Value::Bool(true), Value::number(1e300)] {
            assert_eq!(read(&no_moment), None, "{no_moment}");
        }
    }
}
