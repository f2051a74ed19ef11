//! Event times: ISO 8601 text, with or without a UTC offset, or milliseconds since 1970.
//!
//! Most logs use one form of time. That form has a fast parser here; all others use the general one.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::util::calendar::DAY;

/// Parses a JSON string (ISO 8601) or number as milliseconds since 1970; `None` if it is not a time.
pub fn instant(json: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(json).ok()?;
    match text.strip_prefix('"') {
        // Some programs escape plus signs.
        Some(_) if text.contains('\\') => iso(&serde_json::from_str::<String>(text).ok()?),
        Some(text) => iso(text.strip_suffix('"')?),
        None => text.parse().ok().or_else(|| {
            let number: f64 = text.parse().ok()?;
            (number.abs() < i64::MAX as f64).then_some(number as i64)
        }),
    }
}

/// A unit of time since 1970 other than milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Microseconds or nanoseconds.
    Finer,
}

/// Guesses whether a JSON number has a unit other than milliseconds; `None` if not. Seconds of the years 1973 to 5138
/// would be milliseconds before 1973. Milliseconds after 5138 are more likely a finer unit.
pub fn unit(json: &[u8]) -> Option<Unit> {
    const DIGITS_OF_SECONDS: std::ops::RangeInclusive<usize> = 9..=11;
    const DIGITS_OF_FINER: usize = 15;
    let whole = json.split(|byte| *byte == b'.').next()?;
    let digits = whole.iter().all(u8::is_ascii_digit).then_some(whole.len())?;
    match digits {
        digits if DIGITS_OF_SECONDS.contains(&digits) => Some(Unit::Seconds),
        DIGITS_OF_FINER.. => Some(Unit::Finer),
        _ => None,
    }
}

impl Unit {
    /// Returns the warning that a time in this unit was read as `milliseconds`.
    pub fn warning(self, milliseconds: i64) -> String {
        let unit = match self {
            Self::Seconds => "seconds",
            Self::Finer => "microseconds or nanoseconds",
        };
        let day = crate::util::calendar::at(milliseconds).map_or_else(String::new, |at| format!(", {}", at.date()));
        format!(
            "a time looks like {unit} since 1970: {milliseconds} is read as milliseconds{day}; numbers have to be \
             milliseconds"
        )
    }
}

/// Parses ISO 8601 text as milliseconds since 1970; `None` if it is not a time, or if it names a zone without an
/// offset. Text without either is UTC.
pub fn iso(text: &str) -> Option<i64> {
    if let Some(instant) = usual(text.as_bytes()) {
        return Some(instant);
    }
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Some(instant.as_millisecond());
    }
    // The parser below would ignore the name of a zone, and an offset from a time out of range.
    let has_offset = text.split_once(['T', 't', ' ']).is_some_and(|(_, time)| time.contains(['+', '-']));
    if has_offset || text.contains('[') {
        return None;
    }
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// Parses text such as `2017-03-01T12:00:00.123Z`, in the years 1970 to 9999, to milliseconds since 1970.
/// The fraction has up to nine digits, of which three count. Returns `None` for other forms, which may still be valid.
fn usual(text: &[u8]) -> Option<i64> {
    let (whole, rest) = text.split_at_checked(19)?;
    let fraction = match rest.strip_suffix(b"Z")? {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            number(digits)?;
            // Keep the first three fraction digits: milliseconds.
            (0..3).fold(0, |sum, place| sum * 10 + digits.get(place).map_or(0, |digit| i64::from(digit - b'0')))
        }
        _ => return None,
    };
    let shape = |place: usize, byte: u8| whole[place] == byte;
    if !(shape(4, b'-') && shape(7, b'-') && shape(10, b'T') && shape(13, b':') && shape(16, b':')) {
        return None;
    }
    let (year, month, day) = (number(&whole[..4])?, number(&whole[5..7])?, number(&whole[8..10])?);
    let (hour, minute, second) = (number(&whole[11..13])?, number(&whole[14..16])?, number(&whole[17..])?);
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !valid || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = since_1970(year, month, day);
    Some(days * DAY + ((hour * 60 + minute) * 60 + second) * 1000 + fraction)
}

/// Parses decimal digits; `None` if any other byte occurs, 0 for no digits. Does not check for overflow.
fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

/// Returns the number of days in month `month`, from 1, of a year.
fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a later date, with month and day from 1.
fn since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last day. March to July and August to December both
    // have 153 days.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = 365 * year + year / 4 - year / 100 + year / 400;
    before + (153 * month + 2) / 5 + day - 1 - BEFORE_1970
}

/// Days from March of the (proleptic) year 0 to 1970-01-01.
const BEFORE_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use crate::util::calendar;
    use crate::util::draw::Draw;

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
            ("\"2017-03-01T13:30:00\\u002B01:30\"", noon),
            ("\"2017-03-01T07:00:00-05:00[America/New_York]\"", noon),
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

    #[test]
    fn a_zone_or_an_offset_that_cannot_be_applied_is_not_read_as_utc() {
        for text in [
            "2017-03-01T12:00:00[America/New_York]",
            "2017-03-01T12:00:00[UTC]",
            "2017-03-01[Europe/Paris]",
            "9999-12-30T21:00:00-05:00",
        ] {
            assert_eq!(iso(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_of_other_units_are_recognised() {
        for json in ["1488369600", "1488369600.5", "99999999999"] {
            assert_eq!(unit(json.as_bytes()), Some(Unit::Seconds), "{json}");
        }
        for json in ["1488369600000000", "1488369600000000000"] {
            assert_eq!(unit(json.as_bytes()), Some(Unit::Finer), "{json}");
        }
        for json in ["1488369600000", "-1", "5", "\"1488369600\"", "1.4883696e12", "null"] {
            assert_eq!(unit(json.as_bytes()), None, "{json}");
        }
        assert!(Unit::Seconds.warning(1_795_480_000).contains("1970-01-21"));
    }

    /// The fast parser agrees with the general one wherever it accepts a text.
    #[test]
    fn the_usual_form_is_read_as_the_general_reader_reads_it() {
        let general = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|instant| instant.as_millisecond());
        // Times in all years, then the same texts with one byte changed.
        for k in 0..20_000 {
            let draw = Draw::new(1, 2, k);
            let seconds = (draw.unit(0) * 253_402_300_800.0) as i64;
            let instant = jiff::Timestamp::new(seconds, (draw.bits(1) % 1_000_000_000) as i32).unwrap();
            let places = draw.bits(2) as usize % 10;
            let mut text = format!("{instant:.places$}").into_bytes();
            let read = usual(&text);
            assert!(read.is_some(), "{instant}");
            assert_eq!(read, general(str::from_utf8(&text).unwrap()), "{instant}");
            let at = draw.bits(3) as usize % text.len();
            text[at] = b"0123456789-:.TZ "[draw.bits(4) as usize % 16];
            let changed = str::from_utf8(&text).unwrap();
            if let Some(read) = usual(&text) {
                assert_eq!(Some(read), general(changed), "{changed}");
            }
        }
    }

    #[test]
    fn days_of_four_centuries_are_consecutive() {
        for number in calendar::days("1970-01-01").unwrap()..calendar::days("2400-01-01").unwrap() {
            let text = format!("{}Z", calendar::at(number * DAY).unwrap());
            assert_eq!(usual(text.as_bytes()), Some(number * DAY), "{text}");
        }
    }

    #[test]
    fn similar_forms_are_left_to_the_general_parser() {
        for text in [
            "2017-02-29T00:00:00Z",
            "2017-00-01T00:00:00Z",
            "2017-01-00T00:00:00Z",
            "2017-01-01T24:00:00Z",
            "2017-01-01T00:60:00Z",
            "2017-01-01T00:00:60Z",
            "2017-01-01T00:00:00.Z",
            "2017-01-01T00:00:00.1234567890Z",
            "2017-01-01T00:00:00",
            "2017-01-01T00:00:00z",
            "2017-01-01 00:00:00Z",
            "1969-12-31T23:59:59Z",
            "",
        ] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
        }
    }
}
