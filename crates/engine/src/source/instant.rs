//! The time of an event: text of ISO 8601, with or without an offset from UTC, or a number of milliseconds since 1970.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The instant that a JSON value is, milliseconds since 1970; `None` if it does not say one.
pub fn instant(json: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(json).ok()?;
    match text.strip_prefix('"') {
        Some(text) => iso(text.strip_suffix('"')?),
        None => text.parse().ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            (number.abs() < i64::MAX as f64).then_some(number as i64)
        }),
    }
}

/// The instant that a text of ISO 8601 is, milliseconds since 1970; without an offset it is that of UTC.
pub fn iso(text: &str) -> Option<i64> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant.as_millisecond());
    }
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_and_without_an_offset_and_numbers_are_instants() {
        let noon = 1_488_369_600_000;
        for (json, milliseconds) in [
            ("\"2017-03-01T12:00:00.123Z\"", noon + 123),
            ("\"2017-03-01T12:00:00Z\"", noon),
            ("\"2017-03-01T13:30:00+01:30\"", noon),
            ("\"2017-03-01T12:00:00.5\"", noon + 500),
            ("\"2017-03-01 12:00:00\"", noon),
            ("\"2017-03-01\"", noon - 43_200_000),
            ("1488369600000", noon),
            ("1.4883696e12", noon),
            ("-1", -1),
        ] {
            assert_eq!(instant(json.as_bytes()), Some(milliseconds), "{json}");
        }
        for json in ["\"\"", "\"noon\"", "null", "true", "{}", "1e300", "\"2017-13-01T00:00:00Z\"", "\"1488369600000\""]
        {
            assert_eq!(instant(json.as_bytes()), None, "{json}");
        }
    }
}
