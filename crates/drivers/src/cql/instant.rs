//! Conversion between text and CQL's date and time units, in UTC: milliseconds since 1970, days, nanoseconds of a day.

use jiff::civil::Time;
use loadframe_engine::util::calendar;
use loadframe_engine::util::calendar::DAY;
pub use loadframe_engine::util::calendar::milliseconds;

/// 1970-01-01 as a CQL day number.
const EPOCH: i64 = 1 << 31;

/// Parses `2015-01-31` as a CQL day number, in which 1970-01-01 is 2^31; `None` for other text.
pub fn date(text: &str) -> Option<u32> {
    u32::try_from(calendar::days(text)? + EPOCH).ok()
}

/// Parses `23:59:59.5` as nanoseconds since midnight; `None` for other text.
pub fn nanoseconds(text: &str) -> Option<i64> {
    Some(calendar::time(text)?.duration_since(Time::midnight()).as_nanos() as i64)
}

/// Formats milliseconds since 1970 as `2015-01-31T23:59:59.500Z`. Outside the years 0 to 9999, returns the number.
pub fn text(milliseconds: i64) -> String {
    let at = calendar::at(milliseconds);
    at.map_or_else(|| milliseconds.to_string(), |at| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
}

/// Formats a CQL day number, in which 1970-01-01 is 2^31, as `2015-01-31`. Outside the years 0 to 9999, returns the
/// number.
pub fn date_text(day: u32) -> String {
    let at = calendar::at((i64::from(day) - EPOCH) * DAY);
    at.map_or_else(|| day.to_string(), |at| at.date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_and_written() {
        for given in ["2000-02-29T12:00:00.000Z", "1900-03-01T00:00:00.001Z", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(text(milliseconds(given).unwrap()), given);
        }
        assert_eq!(date("1970-01-01"), Some(1 << 31));
        assert_eq!(date_text(date("2024-02-29").unwrap()), "2024-02-29");
        assert_eq!(nanoseconds("00:01:02.000000003"), Some(62_000_000_003));
        assert_eq!(nanoseconds("24:00:00"), None);
        assert_eq!((text(i64::MAX), date_text(0)), (i64::MAX.to_string(), "0".to_owned()));
    }
}
