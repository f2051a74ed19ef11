//! Dates and times of the Gregorian calendar in UTC, relative to the start of 1970.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, date};

/// The start of 1970.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// Milliseconds in a day.
pub const DAY: i64 = 24 * 60 * 60 * 1000;

/// Parses `2015-01-31` or `2015-01-31T12:30:00.5` as milliseconds since 1970; `None` for any other text.
/// Seconds and their fraction are optional, a space may replace the `T`, and a `Z` may follow.
pub fn milliseconds(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, time) = match text.split_at_checked(10)? {
        (day, "") => (day, Time::midnight()),
        (day, rest) => (day, self::time(rest.strip_prefix(['T', ' '])?)?),
    };
    Some(days(day)? * DAY + time.duration_since(Time::midnight()).as_millis() as i64)
}

/// Parses `2015-01-31` as days since 1970-01-01; `None` for any other text.
pub fn days(text: &str) -> Option<i64> {
    let plain = text
        .bytes()
        .enumerate()
        .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    let date: Date = text.parse().ok().filter(|_| plain && text.len() == 10)?;
    Some(date.duration_since(EPOCH.date()).as_hours() / 24)
}

/// Parses a time of day, `23:59` or `23:59:59.5`; `None` for any other text, including a leap second.
pub fn time(text: &str) -> Option<Time> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let plain =
        clock.bytes().enumerate().all(|(at, byte)| if at % 3 == 2 { byte == b':' } else { byte.is_ascii_digit() });
    let valid = plain
        && matches!(clock.len(), 5 | 8)
        && !clock.ends_with(":60")
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| valid)
}

/// Returns the date and time at `milliseconds` since 1970; `None` outside the years 0 to 9999.
#[inline]
pub fn at(milliseconds: i64) -> Option<DateTime> {
    EPOCH.checked_add(SignedDuration::from_millis(milliseconds)).ok().filter(|at| at.year() >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_four_centuries_are_consecutive() {
        let lengths = |year: i16| {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut number = days("1899-12-31").unwrap();
        for year in 1900..2300 {
            for (month, length) in (1..).zip(lengths(year)) {
                for day in 1..=length {
                    number += 1;
                    assert_eq!(at(number * DAY).unwrap().date(), date(year, month, day));
                }
            }
        }
    }

    #[test]
    fn instants_are_counted_from_1970() {
        assert_eq!(milliseconds("1970-01-01"), Some(0));
        assert_eq!(milliseconds("2015-07-04T12:30:05Z"), Some(1_436_013_005_000));
        assert_eq!(milliseconds("2015-01-31 00:34"), Some(1_422_664_440_000));
        assert_eq!(milliseconds("2015-01-31T00:34:42.5Z"), Some(1_422_664_482_500));
        assert_eq!(milliseconds("1969-12-31T23:59:59.999Z"), Some(-1));
        for text in ["0000-01-01T00:00:00", "2000-02-29T12:00:00", "1900-03-01T00:00:00", "9999-12-31T23:59:59"] {
            assert_eq!(at(milliseconds(text).unwrap()).unwrap().to_string(), text);
        }
        assert_eq!((at(i64::MIN), at(i64::MAX)), (None, None));
    }

    #[test]
    fn invalid_dates_are_none() {
        for text in [
            "",
            "now",
            "today",
            "1.5",
            "2015",
            "2015-02-29",
            "2015-13-01",
            "2015-1-1",
            "20150101",
            "2015-01-01-01",
            "2015-01-01T",
            "2015-01-01T25:00",
            "2015-01-01T25:00:00",
            "2015-01-01T12",
            "2015-01-01T1234",
            "2015-01-01T12:00:60",
            "2015-01-01T12:00:00+01:00",
            "2015-01-01x12:00:00",
            "+002015-01-01",
        ] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
