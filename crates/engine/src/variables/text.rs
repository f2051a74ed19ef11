//! Texts: random letters of a length, and instants written in a format.

use serde_json::Value;

use super::Encoding;
use super::encoded::Encoded;
use super::form::Form;
use super::whole::below;
use crate::digits::{pair, push_i64, push_u64};
use crate::draw::{Draw, mix};
use crate::plan::PlanError;

/// Characters that stand for themselves in JSON, in paths and in queries; each takes 6 bits.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LONGEST: u64 = 1 << 20;

const SECOND: i64 = 1000;
const DAY: i64 = 24 * 60 * 60 * SECOND;

/// Random letters.
#[derive(Clone, Debug)]
pub struct Letters {
    shortest: u64,
    longest: u64,
}

impl Letters {
    /// `{length: 100}` or `{length: [10, 200]}`.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("text", argument, &["length"])?;
        let wrong = || form.wrong("length", "a number of characters up to 1048576, or [shortest, longest]");
        let length = |value: &Value| value.as_u64().filter(|length| *length <= LONGEST);
        let (shortest, longest) = match form.get("length") {
            Some(Value::Array(ends)) => {
                let [shortest, longest] = ends.as_slice() else { return Err(wrong()) };
                (length(shortest), length(longest))
            }
            Some(value) => (length(value), length(value)),
            None => return Err(wrong()),
        };
        match (shortest, longest) {
            (Some(shortest), Some(longest)) if shortest <= longest => Ok(Self { shortest, longest }),
            _ => Err(wrong()),
        }
    }

    pub fn write(&self, draw: &Draw, salt: u64, out: &mut Vec<u8>) {
        let length = self.shortest + below(self.longest - self.shortest, draw, salt);
        push_letters(draw, mix(salt), length as usize, out);
    }
}

/// Appends so many random letters.
pub fn push_letters(draw: &Draw, salt: u64, mut length: usize, out: &mut Vec<u8>) {
    let mut state = draw.bits(salt);
    while length > 0 {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut bits = state;
        let some = length.min(10);
        out.extend((0..some).map(|_| {
            let letter = LETTERS[(bits & 63) as usize];
            bits >>= 6;
            letter
        }));
        length -= some;
    }
}

/// Instants between two, in a format.
#[derive(Clone, Debug)]
pub struct Dates {
    /// Milliseconds since 1970.
    from: i64,
    span: u64,
    format: Format,
}

#[derive(Clone, Debug)]
enum Format {
    Millis,
    Seconds,
    Pieces(Vec<Piece>),
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Encoded),
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millis,
}

impl Dates {
    /// `{from: 2015-01-01, to: 2016-01-01, format: "%Y-%m-%d %H:%M:%S"}`; `to` itself is not reached. Formats are
    /// those of strftime, or `epoch_second` or `epoch_millis`, which are numbers.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("date", argument, &["from", "to", "format"])?;
        let instant =
            |key| instant(form.text(key)?).ok_or_else(|| form.wrong(key, "like 2015-01-31 or 2015-01-31T12:30:00"));
        let (from, to) = (instant("from")?, instant("to")?);
        if from >= to {
            return Err(form.wrong("to", "later than from"));
        }
        let format = match form.get("format").map(|_| form.text("format")).transpose()? {
            None => pieces("%Y-%m-%dT%H:%M:%S.%LZ"),
            Some("epoch_millis") => Some(Format::Millis),
            Some("epoch_second") => Some(Format::Seconds),
            Some(format) => pieces(format),
        };
        let wanted = "made of %Y %m %d %H %M %S %L (milliseconds) and %%, or epoch_second, or epoch_millis";
        Ok(Self { from, span: from.abs_diff(to), format: format.ok_or_else(|| form.wrong("format", wanted))? })
    }

    pub fn write(&self, draw: &Draw, salt: u64, encoding: Encoding, out: &mut Vec<u8>) {
        let millis = self.from + below(self.span - 1, draw, salt) as i64;
        let pieces = match &self.format {
            Format::Millis => return push_i64(out, millis),
            Format::Seconds => return push_i64(out, millis.div_euclid(SECOND)),
            Format::Pieces(pieces) => pieces,
        };
        let (year, month, day) = civil(millis.div_euclid(DAY));
        let time = millis.rem_euclid(DAY) as u64;
        let quote = encoding == Encoding::Json;
        if quote {
            out.push(b'"');
        }
        for piece in pieces {
            match piece {
                Piece::Literal(text) if quote => out.extend_from_slice(text.encoded(Encoding::JsonText)),
                Piece::Literal(text) => out.extend_from_slice(text.encoded(encoding)),
                Piece::Year => {
                    out.extend_from_slice(pair(year / 100));
                    out.extend_from_slice(pair(year % 100));
                }
                Piece::Month => out.extend_from_slice(pair(month)),
                Piece::Day => out.extend_from_slice(pair(day)),
                Piece::Hour => out.extend_from_slice(pair(time / 3_600_000)),
                Piece::Minute => out.extend_from_slice(pair(time / 60_000 % 60)),
                Piece::Second => out.extend_from_slice(pair(time / 1000 % 60)),
                Piece::Millis => {
                    push_u64(out, time % 1000 / 100);
                    out.extend_from_slice(pair(time % 100));
                }
            }
        }
        if quote {
            out.push(b'"');
        }
    }
}

/// Appends a second since 1970 as `2015-01-31T12:30:00Z`.
pub fn push_second(out: &mut Vec<u8>, second: i64) {
    let (year, month, day) = civil(second.div_euclid(DAY / SECOND));
    let time = second.rem_euclid(DAY / SECOND) as u64;
    let parts = [(year / 100, ""), (year % 100, "-"), (month, "-"), (day, "T")];
    let clock = [(time / 3600, ":"), (time / 60 % 60, ":"), (time % 60, "Z")];
    for (number, end) in parts.into_iter().chain(clock) {
        out.extend_from_slice(pair(number));
        out.extend_from_slice(end.as_bytes());
    }
}

fn pieces(format: &str) -> Option<Format> {
    let mut pieces = Vec::new();
    let literal = |text: &str| Piece::Literal(Encoded::new(&Value::from(text)));
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        if at > 0 {
            pieces.push(literal(&rest[..at]));
        }
        pieces.push(match rest.as_bytes().get(at + 1)? {
            b'Y' => Piece::Year,
            b'm' => Piece::Month,
            b'd' => Piece::Day,
            b'H' => Piece::Hour,
            b'M' => Piece::Minute,
            b'S' => Piece::Second,
            b'L' => Piece::Millis,
            b'%' => literal("%"),
            _ => return None,
        });
        rest = &rest[at + 2..];
    }
    if !rest.is_empty() {
        pieces.push(literal(rest));
    }
    Some(Format::Pieces(pieces))
}

/// Milliseconds since 1970 of `2015-01-31` or `2015-01-31T12:30:00`, with a space for the `T` or a `Z` at the end.
fn instant(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let digits = |part: &str, length: usize, last: i64| {
        let fits = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| part.parse().ok()).flatten().filter(|number| (0..=last).contains(number))
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day) = (digits(year, 4, 9999)?, digits(month, 2, 12)?, digits(day, 2, 31)?);
    let mut clock = time.split(':');
    let (hour, minute, second) = (clock.next()?, clock.next()?, clock.next().unwrap_or("00"));
    let (hour, minute, second) = (digits(hour, 2, 23)?, digits(minute, 2, 59)?, digits(second, 2, 59)?);
    let days = days(year, month, day);
    let same = civil(days) == (year as u64, month as u64, day as u64);
    let more = parts.next().is_some() || clock.next().is_some();
    (same && !more).then_some(days * DAY + ((hour * 60 + minute) * 60 + second) * SECOND)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that leap days come last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The date, (year, month, day), so many days after 1970-01-01; for years from 0 to 9999.
fn civil(days: i64) -> (u64, u64, u64) {
    let mut year = (days + 719_468) * 400 / 146_097;
    let first = |year: i64| days_of_march(year);
    while first(year) > days {
        year -= 1;
    }
    while first(year + 1) <= days {
        year += 1;
    }
    let day = days - first(year);
    let month = (5 * day + 2) / 153;
    let (shown, day) = (if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1);
    let year = if month < 10 { year } else { year + 1 };
    (year.max(0) as u64, shown as u64, day as u64)
}

fn days_of_march(year: i64) -> i64 {
    days(year, 3, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_of_four_centuries_follows_the_one_before() {
        let lengths = |year: u64| {
            let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        };
        let mut number = instant("1899-12-31").unwrap() / DAY;
        for year in 1900..2300 {
            for (month, length) in (1..).zip(lengths(year)) {
                for day in 1..=length {
                    number += 1;
                    assert_eq!(civil(number), (year, month, day));
                }
            }
        }
        assert_eq!(instant("1970-01-01"), Some(0));
        let mut out = Vec::new();
        push_second(&mut out, 1_436_013_005);
        assert_eq!(out, b"2015-07-04T12:30:05Z");
        assert_eq!(instant("2015-07-04T12:30:05Z"), Some(1_436_013_005_000));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["2015-02-29", "2015-13-01", "2015-1-1", "2015", "2015-01-01T25:00", "2015-01-01-01", "now", ""] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
