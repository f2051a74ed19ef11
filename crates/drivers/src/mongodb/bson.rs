//! BSON encoding from the JSON of a request's drawn values, and decoding to JSON for display.
//!
//! A whole number becomes a 32-bit int, or a 64-bit int if it does not fit. Other BSON types use MongoDB extended JSON
//! (version 2, relaxed or canonical): `{"$date": "2015-01-31T12:00:00Z"}`, `{"$oid": "..."}`, `{"$numberDecimal":
//! "0.1"}`, `{"$binary": {...}}` and so on. The library converts them; a failed conversion is an error. In addition, a
//! date may be a day, `{"$date": "2015-01-31"}`, or a number of milliseconds.

use bson::{Bson, DateTime, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use loadframe_engine::ingest::instant::instant;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::json::whole::{DEEPEST, depth};
use serde_json::Value;

use crate::crud::Scalar;
use loadframe_engine::util::json::{Cursor, Unexpected};

/// Type of a 64-bit floating-point number.
const DOUBLE: u8 = 0x01;
/// Type of a string.
const TEXT: u8 = 0x02;
/// Type of a document.
const DOCUMENT: u8 = 0x03;
/// Type of an array.
const ARRAY: u8 = 0x04;
/// Type of an object id.
const OBJECT_ID: u8 = 0x07;
/// Type of a boolean.
const BOOL: u8 = 0x08;
/// Type of a date: milliseconds since 1970.
const DATE: u8 = 0x09;
/// Type of null.
const NULL: u8 = 0x0a;
/// Type of a 32-bit integer.
const INT: u8 = 0x10;
/// Type of a 64-bit integer.
const LONG: u8 = 0x12;

/// Appends a document to `out`: its length, the fields that `fields` writes, and its end. Returns the error of
/// `fields`.
pub fn document<E>(out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(out)?;
    out.push(0);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_le_bytes());
    Ok(())
}

/// Appends a field of type document to `out`. `fields` writes its content; returns its error.
pub fn nested<E>(out: &mut Vec<u8>, name: &str, fields: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    head(out, DOCUMENT, name.as_bytes());
    document(out, fields)
}

/// Appends a field of type array to `out`. `elements` writes fields named 0, 1, and so on; returns its error.
pub fn array<E>(out: &mut Vec<u8>, name: &str, elements: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    head(out, ARRAY, name.as_bytes());
    document(out, elements)
}

/// Appends a field of type string. Panics if the name has a zero byte.
pub fn text(out: &mut Vec<u8>, name: &str, text: &str) {
    field(out, name.as_bytes(), &Scalar::Text(text.into())).expect("the name is of our own making");
}

/// Appends a field of type boolean. Panics if the name has a zero byte.
pub fn switch(out: &mut Vec<u8>, name: &str, on: bool) {
    field(out, name.as_bytes(), &Scalar::Bool(on)).expect("the name is of our own making");
}

/// Appends an integer field, of 32 bits if it fits and else of 64. Panics if the name has a zero byte.
pub fn int(out: &mut Vec<u8>, name: &str, number: i64) {
    field(out, name.as_bytes(), &Scalar::Int(number)).expect("the name is of our own making");
}

/// Appends a field with the value's type. Fails for a name with a zero byte, and for a value that is invalid JSON,
/// invalid extended JSON or nested too deep.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &Scalar) -> Result<(), Unexpected> {
    match value {
        Scalar::Json(json) if depth(json) > DEEPEST => Err(Unexpected),
        value => shallow(out, name, value),
    }
}

/// Appends a field with the value's type, without a check of the nesting depth. Recursive. Fails for a name with a zero
/// byte, and for invalid JSON or extended JSON.
fn shallow(out: &mut Vec<u8>, name: &[u8], value: &Scalar) -> Result<(), Unexpected> {
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

/// Appends the fields of a JSON object, except the field `without`. Fails if one cannot be encoded; see [`field`].
pub fn fields(out: &mut Vec<u8>, json: &[u8], without: Option<&[u8]>) -> Result<(), Unexpected> {
    members(json, |name, value| if without == Some(name) { Ok(()) } else { field(out, name, &value) })
}

/// Appends the fields of an event, a JSON object. Fields named in `times` become dates if their values are timestamps.
/// Fails if a field cannot be encoded; see [`field`].
pub fn event(out: &mut Vec<u8>, json: &[u8], times: &[String]) -> Result<(), Unexpected> {
    Cursor::new(json).object(|name, cursor| {
        let value = cursor.value()?;
        let is_time = times.iter().any(|time| time.as_bytes() == name);
        match instant(value).filter(|_| is_time) {
            Some(milliseconds) => sized(out, DATE, name, &milliseconds.to_le_bytes()),
            None => field(out, name, &Scalar::parse(value).ok_or(Unexpected)?)?,
        }
        Ok(true)
    })
}

/// Calls `member` with the name and the value of each member of a JSON object. Stops at the first error, of the JSON or
/// of `member`.
fn members(json: &[u8], mut member: impl FnMut(&[u8], Scalar<'_>) -> Result<(), Unexpected>) -> Result<(), Unexpected> {
    Cursor::new(json)
        .object(|name, cursor| member(name, Scalar::parse(cursor.value()?).ok_or(Unexpected)?).map(|()| true))
}

/// Appends a field of type array or document, or of the type that extended JSON stands for. `json` is an array or an
/// object. Fails if it is invalid.
fn compound(out: &mut Vec<u8>, name: &[u8], json: &[u8]) -> Result<(), Unexpected> {
    if json.first() == Some(&b'[') {
        head(out, ARRAY, name);
        return document(out, |out| {
            Cursor::new(json).array(|index, cursor| {
                let mut digits = [0; 20];
                let value = Scalar::parse(cursor.value()?).ok_or(Unexpected)?;
                shallow(out, decimal(index, &mut digits), &value).map(|()| true)
            })
        });
    }
    if let Some(extended) = extended(json)? {
        return typed(out, name, extended);
    }
    head(out, DOCUMENT, name);
    document(out, |out| members(json, |name, value| shallow(out, name, &value)))
}

/// The keys of extended JSON, as the library converts it.
const EXTENDED: [&str; 16] = [
    "$oid",
    "$symbol",
    "$regularExpression",
    "$numberInt",
    "$numberLong",
    "$numberDouble",
    "$numberDecimal",
    "$binary",
    "$uuid",
    "$code",
    "$timestamp",
    "$date",
    "$minKey",
    "$maxKey",
    "$dbPointer",
    "$undefined",
];

/// Converts a JSON object to a BSON value; `None` if it is not extended JSON. Fails for invalid extended JSON.
fn extended(json: &[u8]) -> Result<Option<Bson>, Unexpected> {
    if memchr::memmem::find(json, b"\"$").is_none() {
        return Ok(None);
    }
    let (mut is_extended, mut members, mut date) = (false, 0, None);
    Cursor::new(json).object(|name, cursor| {
        let value = cursor.value()?;
        members += 1;
        is_extended |= EXTENDED.iter().any(|known| known.as_bytes() == name);
        if name == b"$date" {
            date = Scalar::parse(value);
        }
        Ok(true)
    })?;
    // Two non-standard forms of dates, and the most frequent standard form.
    match date.filter(|_| members == 1) {
        Some(Scalar::Text(text)) => return self::date(&text).map(|date| Some(Bson::DateTime(date))),
        Some(Scalar::Int(milliseconds)) => return Ok(Some(Bson::DateTime(DateTime::from_millis(milliseconds)))),
        _ => {}
    }
    if !is_extended {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(json).map_err(|_| Unexpected)?;
    Bson::try_from(value).map(Some).map_err(|_| Unexpected)
}

/// Appends a field of a type that JSON lacks, such as a date or an object id. Fails for a name that is not UTF-8 or a
/// value that cannot be encoded.
fn typed(out: &mut Vec<u8>, name: &[u8], value: Bson) -> Result<(), Unexpected> {
    match value {
        Bson::DateTime(date) => sized(out, DATE, name, &date.timestamp_millis().to_le_bytes()),
        Bson::ObjectId(id) => sized(out, OBJECT_ID, name, &id.bytes()),
        other => {
            let name = std::str::from_utf8(name).map_err(|_| Unexpected)?;
            let document = Document::from_iter([(name.to_owned(), other)]);
            let raw = RawDocumentBuf::try_from(&document).map_err(|_| Unexpected)?;
            // A document without its length and its end is the encoding of its fields.
            let bytes = raw.as_bytes();
            out.extend_from_slice(&bytes[4..bytes.len() - 1]);
        }
    }
    Ok(())
}

/// Refuses invalid extended JSON anywhere in an operation's form. Does not check a mapping with drawn values, but
/// checks the mappings in it.
pub fn verify(form: &Value) -> Result<(), PlanError> {
    match form {
        Value::Array(elements) => elements.iter().try_for_each(verify),
        Value::Object(members) => {
            let json = form.to_string();
            let is_extended = members.keys().any(|name| EXTENDED.contains(&name.as_str()));
            if !is_extended || json.contains("${") {
                return members.values().try_for_each(verify);
            }
            match extended(json.as_bytes()) {
                Ok(_) => Ok(()),
                Err(_) => {
                    let why = Bson::try_from(form.clone()).err().map_or_else(String::new, |error| format!(": {error}"));
                    Err(PlanError::new(format!("{json} is not extended JSON of any type that MongoDB has{why}")))
                }
            }
        }
        _ => Ok(()),
    }
}

/// Parses a time of RFC 3339, or a day such as `2015-01-31`, which stands for its start in UTC. Fails for other text.
fn date(text: &str) -> Result<DateTime, Unexpected> {
    // A day stands for its start.
    let whole = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
    DateTime::parse_rfc3339_str(whole).map_err(|_| Unexpected)
}

/// Appends a field's type byte `kind` and its name, which must have no zero byte.
fn head(out: &mut Vec<u8>, kind: u8, name: &[u8]) {
    out.push(kind);
    out.extend_from_slice(name);
    out.push(0);
}

/// Appends a field's type, its name and the bytes of its value.
fn sized(out: &mut Vec<u8>, kind: u8, name: &[u8], value: &[u8]) {
    head(out, kind, name);
    out.extend_from_slice(value);
}

/// Writes the decimal digits of an index, the name of an array element, into `digits` and returns them.
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

/// Returns the value of a field; `None` if it is missing or malformed. Faster than the library's typed getters, which
/// allocate an error for a missing field.
pub fn value<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    document.get(name).ok().flatten()
}

/// Returns a copy of a document without the field `name` and without malformed fields.
pub fn without(document: &RawDocument, name: &str) -> RawDocumentBuf {
    let elements = document.into_iter().flatten().filter(|(key, _)| key.as_str() != name);
    elements.collect()
}

/// Returns whether a document of an answer is valid and not nested too deep for recursive functions.
pub fn is_valid(document: &RawDocument) -> bool {
    is_valid_below(document, 0)
}

/// Returns whether a document that is nested in `depth` others is valid and not nested too deep.
fn is_valid_below(document: &RawDocument, depth: usize) -> bool {
    depth <= DEEPEST
        && document.into_iter().all(|element| match element.map(|(_, value)| value) {
            Ok(RawBsonRef::Document(inner)) => is_valid_below(inner, depth + 1),
            Ok(RawBsonRef::Array(inner)) => {
                RawDocument::from_bytes(inner.as_bytes()).is_ok_and(|inner| is_valid_below(inner, depth + 1))
            }
            Ok(RawBsonRef::JavaScriptCodeWithScope(code)) => is_valid_below(code.scope, depth + 1),
            Ok(_) => true,
            Err(_) => false,
        })
}

/// Converts a document of an answer to the library's type. Returns `None` if it is malformed or nested too deep, since
/// the conversion is recursive.
pub fn owned(document: &RawDocument) -> Option<Document> {
    if is_valid(document) { Document::try_from(document).ok() } else { None }
}

/// Converts a document to JSON. Types that JSON lacks become extended JSON. `None` if it is malformed or nested too
/// deep.
pub fn json(document: &RawDocument) -> Option<Value> {
    Some(Bson::Document(owned(document)?).into_relaxed_extjson())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Encodes a JSON object; `None` if it is refused.
    fn written(json: &str) -> Option<RawDocumentBuf> {
        let mut out = Vec::new();
        document(&mut out, |out| fields(out, json.as_bytes(), None)).ok()?;
        RawDocumentBuf::from_bytes(out).ok()
    }

    #[test]
    fn encoded_values_are_decoded_unchanged() {
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
    fn types_without_json_are_extended_json() {
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
    fn extended_json_equals_the_librarys() {
        let canonical = json!({
            "int": {"$numberInt": "7"}, "long": {"$numberLong": "7"}, "double": {"$numberDouble": "Infinity"},
            "binary": {"$binary": {"base64": "AQID", "subType": "00"}},
            "uuid": {"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"},
            "stamp": {"$timestamp": {"t": 5, "i": 6}},
            "regex": {"$regularExpression": {"pattern": "^a", "options": "i"}},
            "code": {"$code": "f()"}, "scoped": {"$code": "f()", "$scope": {"a": {"$numberLong": "1"}}},
            "min": {"$minKey": 1}, "max": {"$maxKey": 1}, "symbol": {"$symbol": "s"}, "nothing": {"$undefined": true},
            "pointer": {"$dbPointer": {"$ref": "db.c", "$id": {"$oid": "5f3c7e1e9d1e8a0001000000"}}},
            "old": {"$date": {"$numberLong": "-1"}},
            "list": [{"$numberInt": "1"}, {"$in": [{"$oid": "5f3c7e1e9d1e8a0001000000"}]}],
            "operators": {"$regex": "^a", "$options": "i"}, "deep": {"a": {"b": {"$numberInt": "2"}}},
        });
        let written = super::tests::written(&canonical.to_string()).unwrap();
        let read = Document::try_from(&*written).unwrap();
        let expected = Document::try_from(canonical.as_object().unwrap().clone()).unwrap();
        assert_eq!(read, expected);
        assert!(verify(&canonical).is_ok());
    }

    #[test]
    fn invalid_json_values_are_refused() {
        for bad in [
            r#"{"a": {"$date": "yesterday"}}"#,
            r#"{"a": {"$oid": "5"}}"#,
            r#"{"a": {"$numberLong": "x"}}"#,
            r#"{"a\u0000b": 1}"#,
            r#"{"a": {"$numberInt": 7}}"#,
            r#"{"a": {"$binary": "AQID"}}"#,
            r#"{"a": {"$oid": "5f3c7e1e9d1e8a0001000000", "b": 1}}"#,
            r#"{"a": [{"$timestamp": 5}]}"#,
            "[1]",
        ] {
            assert!(written(bad).is_none(), "{bad}");
        }
        let refused = verify(&json!({"filter": {"a": [{"$timestamp": 5}]}})).unwrap_err().message;
        assert!(
            refused.starts_with("{\"$timestamp\":5} is not extended JSON of any type that MongoDB has: "),
            "{refused}"
        );
        assert!(verify(&json!({"a": {"$oid": "${id}"}, "b": {"$gte": 1}, "c": {"$date": "2015-01-31"}})).is_ok());
    }

    /// Checks that values nested too deeply are refused, in requests and answers, instead of overflowing the stack.
    #[test]
    fn no_depth_ends_the_process() {
        for levels in [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, 5_000, 200_000] {
            for [open, close] in [["[", "]"], ["{\"a\":", "}"]] {
                let text = format!("{{\"x\":{}1{}}}", open.repeat(levels), close.repeat(levels));
                assert_eq!(written(&text).is_some(), levels <= DEEPEST, "{levels}");
            }
            // A malformed answer.
            let mut answer = vec![5, 0, 0, 0, 0];
            for _ in 0..levels.min(10_000) {
                let size = (answer.len() + 8) as u32;
                answer = [&size.to_le_bytes()[..], &[DOCUMENT, b'a', 0], &answer[..], &[0]].concat();
            }
            let answer = RawDocument::from_bytes(&answer).unwrap();
            assert_eq!(super::json(answer).is_some(), levels <= DEEPEST, "{levels}");
        }
    }

    #[test]
    fn event_times_become_dates_from_any_form() {
        let times = ["time".to_owned()];
        let line = |time: &str| {
            let mut out = Vec::new();
            let line = format!("{{\"time\": {time}, \"other\": {time}}}");
            document(&mut out, |out| event(out, line.as_bytes(), &times)).unwrap();
            RawDocumentBuf::from_bytes(out).unwrap()
        };
        for time in ["\"2026-11-25T01:00:00+09:00\"", "\"2026-11-24T16:00:00.000Z\"", "1795536000000"] {
            let written = line(time);
            assert_eq!(written.get_datetime("time").unwrap().timestamp_millis(), 1_795_536_000_000, "{time}");
            assert!(written.get_datetime("other").is_err(), "{time}");
        }
        assert_eq!(line("\"soon\"").get_str("time").unwrap(), "soon");
    }

    /// Checks that `fields` omits the field `without`.
    #[test]
    fn a_field_is_left_out() {
        let mut out = Vec::new();
        document(&mut out, |out| fields(out, br#"{"a": 1, "_id": 2, "b": 3}"#, Some(b"_id"))).unwrap();
        let written = RawDocumentBuf::from_bytes(out).unwrap();
        assert_eq!(super::json(&written).unwrap(), json!({"a": 1, "b": 3}));
    }
}
