//! Text variables: random letters, and formatted times.

use serde_json::Value;

use super::Encoding;
use super::encoded::Encoded;
use super::form::Form;
use super::whole::below;
use crate::plan::PlanError;
use crate::util::calendar;
use crate::util::calendar::DAY;
use crate::util::digits::{pair, push_i64, push_u64};
use crate::util::draw::{Draw, mix};
use crate::workload::text::push_letters;

const LONGEST: u64 = 1 << 20;

const SECOND: i64 = 1000;

/// Random letters.
#[derive(Clone, Debug)]
pub struct RandomLetters {
    shortest: u64,
    longest: u64,
}

impl RandomLetters {
    /// Parses `{length: 100}` or `{length: [10, 200]}`; refuses a length above 1,048,576.
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

    /// Appends the letters that request `draw` draws, unquoted. `salt` separates the draw from the request's others.
    pub fn write(&self, draw: &Draw, salt: u64, out: &mut Vec<u8>) {
        let length = self.shortest + below(self.longest - self.shortest, draw, salt);
        push_letters(draw, mix(salt), length as usize, out);
    }
}

/// Random times in a range, formatted.
#[derive(Clone, Debug)]
pub struct Dates {
    /// Milliseconds since 1970.
    from: i64,
    span: u64,
    format: Format,
}

/// Format of a time.
#[derive(Clone, Debug)]
pub enum Format {
    Millis,
    Seconds,
    Pieces(Vec<Piece>),
}

#[derive(Clone, Debug)]
pub enum Piece {
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
    /// Parses `{from: 2015-01-01, to: 2016-01-01, format: "%Y-%m-%d %H:%M:%S"}`; `to` is excluded, and must be later
    /// than `from`. Formats are strftime formats, or `epoch_second` or `epoch_millis`, which are numbers. Refuses
    /// other dates and formats.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("date", argument, &["from", "to", "format"])?;
        let instant = |key| {
            calendar::milliseconds(form.text(key)?)
                .ok_or_else(|| form.wrong(key, "like 2015-01-31 or 2015-01-31T12:30:00"))
        };
        let (from, to) = (instant("from")?, instant("to")?);
        if from >= to {
            return Err(form.wrong("to", "later than from"));
        }
        Ok(Self { from, span: from.abs_diff(to), format: Format::new(&form)? })
    }

    /// Appends the time that request `draw` draws, in the variable's format and an encoding. `salt` separates the draw
    /// from the request's others.
    pub fn write(&self, draw: &Draw, salt: u64, encoding: Encoding, out: &mut Vec<u8>) {
        self.format.write(self.from + below(self.span - 1, draw, salt) as i64, encoding, out);
    }
}

impl Format {
    /// Parses the `format` of a form: `{format: "%H"}`; ISO 8601 by default. Refuses unknown letters after `%`.
    pub fn new(form: &Form) -> Result<Self, PlanError> {
        let format = match form.get("format").map(|_| form.text("format")).transpose()? {
            None => pieces("%Y-%m-%dT%H:%M:%S.%LZ"),
            Some("epoch_millis") => Some(Self::Millis),
            Some("epoch_second") => Some(Self::Seconds),
            Some(format) => pieces(format),
        };
        let wanted = "made of %Y %m %d %H %M %S %L (milliseconds) and %%, or epoch_second, or epoch_millis";
        format.ok_or_else(|| form.wrong("format", wanted))
    }

    /// Appends a time, given in milliseconds since 1970, in the format; quoted in JSON, unless it is a number.
    pub fn write(&self, millis: i64, encoding: Encoding, out: &mut Vec<u8>) {
        let pieces = match self {
            Self::Millis => return push_i64(out, millis),
            Self::Seconds => return push_i64(out, millis.div_euclid(SECOND)),
            Self::Pieces(pieces) => pieces,
        };
        let (year, month, day) = date(millis);
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

/// Returns year, month and day of a time in the years 0 to 9999; the first day of year 0 for any other.
#[inline]
fn date(milliseconds: i64) -> (u64, u64, u64) {
    let date = calendar::at(milliseconds).unwrap_or_default().date();
    (date.year() as u64, date.month() as u64, date.day() as u64)
}

/// Parses a strftime format; `None` if a `%` has an unknown letter or nothing after it.
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
