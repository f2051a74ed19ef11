//! Converts answer values from the server's binary format to JSON, for assertions and display.

use std::error::Error;
use std::fmt::Write;

use serde_json::{Map, Number, Value};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Kind, Type};

/// Bytes before the lengths of an array: number of dimensions, flags, and element type.
const ARRAY_HEAD: usize = 12;

/// The bytes of a value, as received.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    /// Returns the bytes of a value; never fails.
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(bytes))
    }

    /// Returns true: any type is kept as bytes.
    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Converts a row to a JSON object of its columns; null for a null.
pub fn object(row: &Row) -> Value {
    let value = |place: usize| {
        let bytes = row.try_get::<_, Option<Raw>>(place).ok().flatten();
        bytes.map_or(Value::Null, |raw| json(row.columns()[place].type_(), raw.0))
    };
    Value::Object(
        row.columns()
            .iter()
            .enumerate()
            .map(|(place, column)| (column.name().to_owned(), value(place)))
            .collect::<Map<_, _>>(),
    )
}

/// Converts a value of type `kind` from the binary format to JSON; to hexadecimal text, if the type is unknown here or
/// the value malformed.
pub fn json(kind: &Type, bytes: &[u8]) -> Value {
    if let Kind::Array(element) = kind.kind() {
        return array(element, bytes).unwrap_or_else(|| hex(bytes));
    }
    let known = match *kind {
        Type::BOOL => bytes.first().map(|byte| Value::Bool(*byte != 0)),
        Type::INT2 => bytes.try_into().ok().map(|bytes| i16::from_be_bytes(bytes).into()),
        Type::INT4 => bytes.try_into().ok().map(|bytes| i32::from_be_bytes(bytes).into()),
        Type::INT8 => bytes.try_into().ok().map(|bytes| i64::from_be_bytes(bytes).into()),
        Type::OID => bytes.try_into().ok().map(|bytes| u32::from_be_bytes(bytes).into()),
        Type::FLOAT4 => bytes.try_into().ok().map(|bytes| float(f32::from_be_bytes(bytes).into())),
        Type::FLOAT8 => bytes.try_into().ok().map(|bytes| float(f64::from_be_bytes(bytes))),
        Type::NUMERIC => numeric(bytes),
        Type::JSON => serde_json::from_slice(bytes).ok(),
        // The text follows a byte with the format's version.
        Type::JSONB => bytes.get(1..).and_then(|bytes| serde_json::from_slice(bytes).ok()),
        Type::UUID => uuid::Uuid::from_slice(bytes).ok().map(|id| Value::String(id.to_string())),
        Type::BYTEA => Some(hex(bytes)),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::CHAR | Type::XML => {
            Some(Value::String(String::from_utf8_lossy(bytes).into_owned()))
        }
        _ => match kind.kind() {
            Kind::Enum(_) => Some(Value::String(String::from_utf8_lossy(bytes).into_owned())),
            Kind::Domain(base) => Some(json(base, bytes)),
            _ => None,
        },
    };
    known.unwrap_or_else(|| hex(bytes))
}

/// Converts a number to JSON; NaN and the infinities to text.
fn float(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
}

/// Converts bytes to the text `\x` and hexadecimal digits.
fn hex(bytes: &[u8]) -> Value {
    Value::String(bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    }))
}

/// Reads a big-endian 32-bit integer at offset `at`; `None` beyond the end.
fn word(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Converts an array with elements of type `element`: the length of each dimension, then the elements, each preceded by
/// its length. `None` if it is malformed.
fn array(element: &Type, bytes: &[u8]) -> Option<Value> {
    let dimensions = usize::try_from(word(bytes, 0)?).ok()?;
    let lengths: Vec<_> = (0..dimensions)
        .map(|place| usize::try_from(word(bytes, ARRAY_HEAD + 8 * place)?).ok())
        .collect::<Option<_>>()?;
    let mut at = ARRAY_HEAD + 8 * dimensions;
    nested(element, bytes, &lengths, &mut at)
}

/// Converts the elements from offset `at` to nested lists, one level per length in `lengths`, and moves `at` past them.
/// `None` if they are malformed; an empty list without lengths.
fn nested(element: &Type, bytes: &[u8], lengths: &[usize], at: &mut usize) -> Option<Value> {
    let Some((count, inner)) = lengths.split_first() else { return Some(Value::Array(Vec::new())) };
    let mut values = Vec::new();
    for _ in 0..*count {
        if !inner.is_empty() {
            values.push(nested(element, bytes, inner, at)?);
            continue;
        }
        let length = word(bytes, *at)?;
        *at += 4;
        match usize::try_from(length) {
            Ok(length) => {
                values.push(json(element, bytes.get(*at..*at + length)?));
                *at += length;
            }
            Err(_) => values.push(Value::Null),
        }
    }
    Some(Value::Array(values))
}

/// Converts a number in base 10,000: the number of digits, the weight of the first, the sign, and the number of decimal
/// places. A number that JSON cannot represent becomes text. `None` if it is malformed.
fn numeric(bytes: &[u8]) -> Option<Value> {
    let short = |place: usize| Some(i16::from_be_bytes(bytes.get(2 * place..2 * place + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (short(0)?, short(1)?, short(2)?, short(3)?);
    let digit = |place: i16| if (0..count).contains(&place) { short(4 + place as usize) } else { Some(0) };
    match sign as u16 {
        0xC000 => return Some(Value::String("NaN".to_owned())),
        0xD000 => return Some(Value::String("Infinity".to_owned())),
        0xF000 => return Some(Value::String("-Infinity".to_owned())),
        _ => {}
    }
    let mut text = if sign as u16 == 0x4000 { "-".to_owned() } else { String::new() };
    for place in 0..=weight.max(0) {
        let digit = if weight < 0 { 0 } else { digit(place)? };
        if place == 0 { write!(text, "{digit}") } else { write!(text, "{digit:04}") }.ok()?;
    }
    if scale > 0 {
        let mut fraction = String::new();
        for place in 0..(scale + 3) / 4 {
            write!(fraction, "{:04}", digit(weight + 1 + place)?).ok()?;
        }
        fraction.truncate(scale as usize);
        text = format!("{text}.{fraction}");
    }
    // A number if JSON can represent it, else a string.
    serde_json::from_str::<Number>(&text).ok().map(Value::Number).or(Some(Value::String(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the 16-bit big-endian form of numbers.
    fn shorts(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| (*word as u16).to_be_bytes()).collect()
    }

    #[test]
    fn values_come_back_as_they_are_written() {
        assert_eq!(super::json(&Type::INT4, &[0, 0, 0, 41]), json!(41));
        assert_eq!(super::json(&Type::BOOL, &[1]), json!(true));
        assert_eq!(super::json(&Type::FLOAT8, &0.5f64.to_be_bytes()), json!(0.5));
        assert_eq!(super::json(&Type::JSONB, b"\x01{\"a\": 1}"), json!({"a": 1}));
        assert_eq!(super::json(&Type::BYTEA, &[0, 255]), json!("\\x00ff"));
        assert_eq!(super::json(&Type::POINT, &[1]), json!("\\x01"));
    }

    #[test]
    fn numbers_of_any_length_keep_their_digits() {
        assert_eq!(super::json(&Type::NUMERIC, &shorts(&[2, 0, 0, 2, 12, 3400])), json!(12.34));
        assert_eq!(super::json(&Type::NUMERIC, &shorts(&[2, 1, 0x4000, 0, 1, 5])), json!(-10005));
        assert_eq!(super::json(&Type::NUMERIC, &shorts(&[1, -1, 0, 4, 5])), json!(0.0005));
        assert_eq!(super::json(&Type::NUMERIC, &shorts(&[0, 0, 0, 0])), json!(0));
        assert_eq!(super::json(&Type::NUMERIC, &shorts(&[0, 0, 0xC000, 0])), json!("NaN"));
    }

    #[test]
    fn arrays_are_lists() {
        let ints = [
            [0, 0, 0, 1],
            [0, 0, 0, 0],
            [0, 0, 0, 23],
            [0, 0, 0, 2],
            [0, 0, 0, 1],
            [0, 0, 0, 4],
            [0, 0, 0, 7],
            [255; 4],
        ];
        assert_eq!(super::json(&Type::INT4_ARRAY, ints.as_flattened()), json!([7, null]));
        assert_eq!(super::json(&Type::INT4_ARRAY, &[0; 12]), json!([]));
        assert_eq!(super::json(&Type::INT4_ARRAY, &ints.as_flattened()[..30]), super::hex(&ints.as_flattened()[..30]));
    }
}
