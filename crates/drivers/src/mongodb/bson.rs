//! BSON, written straight from the JSON that a request's values are drawn as; and read back as JSON for people.
//!
//! A whole number becomes an int of 32 bits, or of 64 where it has to. What JSON has no type for is written as MongoDB's
//! own extended JSON has it: `{"$date": "2015-01-31T12:00:00Z"}`, `{"$oid": "..."}`, `{"$numberLong": "7"}`,
//! `{"$numberDouble": "0.5"}`, `{"$numberDecimal": "0.1"}`.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Decimal128, Document, RawDocument};
use serde_json::Value;

use crate::json::{Cursor, Unexpected};
use crate::neutral::Scalar;

const DOUBLE: u8 = 0x01;
const TEXT: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const OBJECT_ID: u8 = 0x07;
const BOOL: u8 = 0x08;
const DATE: u8 = 0x09;
const NULL: u8 = 0x0a;
const INT: u8 = 0x10;
const LONG: u8 = 0x12;
const DECIMAL: u8 = 0x13;

/// Writes a document; `fields` writes what is in it.
pub fn document<E>(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(out)?;
    out.push(0);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

/// Writes a field that is a document.
pub fn nested<E>(out: &mut Vec<u8>, name: &str, fields: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    head(out, DOCUMENT, name.as_bytes());
    document(out, fields)
}

/// Writes a field that is an array; `elements` writes fields called 0, 1, and so on.
pub fn array<E>(out: &mut Vec<u8>, name: &str, elements: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    head(out, ARRAY, name.as_bytes());
    document(out, elements)
}

/// Writes a field that is a text.
pub fn text(out: &mut Vec<u8>, name: &str, text: &str) {
    field(out, name.as_bytes(), &Scalar::Text(text.into())).expect("the name is of our own making");
}

/// Writes a field that is a boolean.
pub fn switch(out: &mut Vec<u8>, name: &str, on: bool) {
    field(out, name.as_bytes(), &Scalar::Bool(on)).expect("the name is of our own making");
}

/// Writes a field that is a whole number.
pub fn int(out: &mut Vec<u8>, name: &str, number: i64) {
    field(out, name.as_bytes(), &Scalar::Int(number)).expect("the name is of our own making");
}

/// Writes a field in its own type. The error is a name with a zero byte, or a value that is no JSON.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &Scalar) -> Result<(), Unexpected> {
    if name.contains(&0) {
        return Err(Unexpected);
    }
    match value {
        Scalar::Null => head(out, NULL, name),
        Scalar::Bool(on) => {
            head(out, BOOL, name);
            out.push(u8::from(*on));
        }
        Scalar::Int(number) => match i32::try_from(*number) {
            Ok(number) => sized(out, INT, name, &number.to_le_bytes()),
            Err(_) => sized(out, LONG, name, &number.to_le_bytes()),
        },
        Scalar::Float(number) => sized(out, DOUBLE, name, &number.to_le_bytes()),
        Scalar::Text(text) => {
            head(out, TEXT, name);
            out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        Scalar::Json(json) => return compound(out, name, json),
    }
    Ok(())
}

/// Writes the fields of a JSON object, those called `without` left out.
pub fn fields(out: &mut Vec<u8>, json: &[u8], without: Option<&[u8]>) -> Result<(), Unexpected> {
    Cursor::new(json).object(|name, cursor| {
        let value = cursor.value()?;
        if without != Some(name) {
            field(out, name, &Scalar::parse(value).ok_or(Unexpected)?)?;
        }
        Ok(true)
    })
}

fn compound(out: &mut Vec<u8>, name: &[u8], json: &[u8]) -> Result<(), Unexpected> {
    if json.first() == Some(&b'[') {
        head(out, ARRAY, name);
        return document(out, |out| {
            Cursor::new(json).array(|index, cursor| {
                let mut digits = [0; 20];
                let value = Scalar::parse(cursor.value()?).ok_or(Unexpected)?;
                field(out, decimal(index, &mut digits), &value).map(|()| true)
            })
        });
    }
    if let Some(extended) = extended(json)? {
        match extended {
            Bson::DateTime(date) => sized(out, DATE, name, &date.timestamp_millis().to_le_bytes()),
            Bson::ObjectId(id) => sized(out, OBJECT_ID, name, &id.bytes()),
            Bson::Int64(number) => sized(out, LONG, name, &number.to_le_bytes()),
            Bson::Double(number) => sized(out, DOUBLE, name, &number.to_le_bytes()),
            Bson::Decimal128(number) => sized(out, DECIMAL, name, &number.bytes()),
            _ => return Err(Unexpected),
        }
        return Ok(());
    }
    head(out, DOCUMENT, name);
    document(out, |out| fields(out, json, None))
}

/// What a mapping of one key with a `$` stands for, if that is a type.
fn extended(json: &[u8]) -> Result<Option<Bson>, Unexpected> {
    let inside = json[1..].trim_ascii_start();
    if !inside.starts_with(b"\"$") {
        return Ok(None);
    }
    let mut found = None;
    let mut members = 0;
    Cursor::new(json).object(|name, cursor| {
        let value = Scalar::parse(cursor.value()?).ok_or(Unexpected)?;
        members += 1;
        found = typed(name, &value)?;
        Ok(true)
    })?;
    Ok(found.filter(|_| members == 1))
}

fn typed(name: &[u8], value: &Scalar) -> Result<Option<Bson>, Unexpected> {
    let text = if let Scalar::Text(text) = value { Some(&**text) } else { None };
    Ok(Some(match (name, text) {
        (b"$date", Some(text)) => Bson::DateTime(date(text)?),
        (b"$date", None) => match value {
            Scalar::Int(milliseconds) => Bson::DateTime(DateTime::from_millis(*milliseconds)),
            // `{"$date": {"$numberLong": "..."}}`
            Scalar::Json(json) => match extended(json)? {
                Some(Bson::Int64(milliseconds)) => Bson::DateTime(DateTime::from_millis(milliseconds)),
                _ => return Err(Unexpected),
            },
            _ => return Err(Unexpected),
        },
        (b"$oid", Some(text)) => Bson::ObjectId(ObjectId::parse_str(text).map_err(|_| Unexpected)?),
        (b"$numberLong", Some(text)) => Bson::Int64(text.parse().map_err(|_| Unexpected)?),
        (b"$numberDouble", Some(text)) => Bson::Double(text.parse().map_err(|_| Unexpected)?),
        (b"$numberDecimal", Some(text)) => Bson::Decimal128(text.parse::<Decimal128>().map_err(|_| Unexpected)?),
        _ => return Ok(None),
    }))
}

fn date(text: &str) -> Result<DateTime, Unexpected> {
    // A day alone is its beginning.
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    DateTime::parse_rfc3339_str(whole).map_err(|_| Unexpected)
}

fn head(out: &mut Vec<u8>, kind: u8, name: &[u8]) {
    out.push(kind);
    out.extend_from_slice(name);
    out.push(0);
}

fn sized(out: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    head(out, kind, name);
    out.extend_from_slice(value);
}

/// The digits of an index, which is what an element of an array is called.
pub fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// A document as JSON; what JSON has no type for as extended JSON has it.
pub fn json(document: &RawDocument) -> Option<Value> {
    let document = Document::try_from(document).ok()?;
    Some(Bson::Document(document).into_relaxed_extjson())
}

#[cfg(test)]
mod tests {
    use bson::RawDocumentBuf;
    use serde_json::json;

    use super::*;

    fn written(json: &str) -> Option<RawDocumentBuf> {
        let mut out = Vec::new();
        document(&mut out, |out| fields(out, json.as_bytes(), None)).ok()?;
        RawDocumentBuf::from_bytes(out).ok()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let original = json!({
            "a": 1, "b": -5_000_000_000_i64, "c": 0.5, "d": "x\"y", "e": null, "f": true,
            "g": [1, [2, {"h": "é"}], []], "i": {"j": {}, "k": false},
        });
        let written = super::tests::written(&original.to_string()).unwrap();
        assert_eq!(super::json(&written).unwrap(), original);
        assert_eq!(written.get_i32("a").unwrap(), 1);
        assert_eq!(written.get_i64("b").unwrap(), -5_000_000_000);
        let more_than_ten: Vec<_> = (0..12).collect();
        let array = json!({"a": more_than_ten});
        assert_eq!(super::json(&super::tests::written(&array.to_string()).unwrap()).unwrap(), array);
    }

    #[test]
    fn what_json_has_no_type_for_is_written_as_extended_json_has_it() {
        let original = json!({
            "date": {"$date": "2015-01-31T12:00:00Z"},
            "id": {"$oid": "5f3c7e1e9d1e8a0001000000"},
            "decimal": {"$numberDecimal": "0.10"},
            "where": {"$gte": 1, "$lt": 2},
            "one": {"$gte": {"$date": "2015-01-31T00:00:00Z"}},
        });
        let written = super::tests::written(&original.to_string()).unwrap();
        assert_eq!(super::json(&written).unwrap(), original);
        let forms = r#"{"a": {"$date": 1500}, "b": {"$date": {"$numberLong": "1500"}}, "c": {"$numberLong": "7"},
            "d": {"$date": "2015-01-31"}, "e": {"$numberDouble": "1"}}"#;
        let written = super::tests::written(forms).unwrap();
        assert_eq!(written.get_datetime("a").unwrap(), written.get_datetime("b").unwrap());
        assert_eq!(written.get_i64("c").unwrap(), 7);
        assert_eq!(written.get_datetime("d").unwrap().timestamp_millis(), 1_422_662_400_000);
        assert!((written.get_f64("e").unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for bad in [
            r#"{"a": {"$date": "yesterday"}}"#,
            r#"{"a": {"$oid": "5"}}"#,
            r#"{"a": {"$numberLong": "x"}}"#,
            r#"{"a\u0000b": 1}"#,
            "[1]",
        ] {
            assert!(written(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_field_is_left_out() {
        let mut out = Vec::new();
        document(&mut out, |out| fields(out, br#"{"a": 1, "_id": 2, "b": 3}"#, Some(b"_id"))).unwrap();
        let written = RawDocumentBuf::from_bytes(out).unwrap();
        assert_eq!(super::json(&written).unwrap(), json!({"a": 1, "b": 3}));
    }
}
