//! Values in the wire format of their column's type (native protocol v4, section 6).
//!
//! A value of the wrong type is refused: text does not fit an int column. Workloads write every id as text, so
//! [`encode_id`] parses numbers if the key column is numeric.

use std::borrow::Cow;
use std::net::IpAddr;

use scylla::frame::response::result::{CollectionType, ColumnType, NativeType};
use uuid::Uuid;

use super::instant;
use crate::crud::Scalar;
use loadframe_engine::util::json::Cursor;

/// The reason why a value does not fit a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch(pub String);

/// Appends the value's bytes in the format of `column`, without their length. Returns false for null and appends
/// nothing. Fails for a value that does not fit the type; `out` may then hold a part of it.
pub fn encode(value: &Scalar, column: &ColumnType, out: &mut Vec<u8>) -> Result<bool, Mismatch> {
    match column {
        _ if *value == Scalar::Null => return Ok(false),
        ColumnType::Native(native) => return scalar(value, native, out),
        _ => {}
    }
    let Scalar::Json(json) = value else { return Err(mismatch(value, column)) };
    let within = || mismatch(value, column);
    match column {
        ColumnType::Collection { typ: CollectionType::List(element) | CollectionType::Set(element), .. } => {
            counted(out, |out| elements(json, out, |_| Some(element), true, &within))?;
        }
        ColumnType::Collection { typ: CollectionType::Map(key, element), .. } => {
            counted(out, |out| pairs(json, key, element, out, &within))?;
        }
        ColumnType::Tuple(types) => {
            elements(json, out, |index| types.get(index), true, &within)?;
        }
        ColumnType::Vector { typ, dimensions } => {
            let fixed = matches!(&**typ, ColumnType::Native(native) if native.type_size_for_vector().is_some());
            let count = if fixed { elements(json, out, |_| Some(typ), false, &within)? } else { 0 };
            if count != i32::from(*dimensions) {
                return Err(within());
            }
        }
        ColumnType::UserDefinedType { definition, .. } => {
            for (name, typ) in &definition.field_types {
                let mut element = None;
                let member = |field: &[u8], cursor: &mut Cursor| {
                    let value = cursor.value()?;
                    if field == name.as_bytes() {
                        element = Some(value.to_vec());
                    }
                    Ok(true)
                };
                Cursor::new(json).object(member).map_err(|_| within())?;
                one(element.as_deref().unwrap_or(b"null"), typ, out, &within)?;
            }
        }
        _ => return Err(within()),
    }
    Ok(true)
}

/// Appends the bytes of an id in the format of `column`. Workloads write ids as text; a numeric column gets a number.
/// Fails for an id that does not fit the type.
pub fn encode_id(id: &str, column: &ColumnType, out: &mut Vec<u8>) -> Result<(), Mismatch> {
    let value = match column {
        ColumnType::Native(
            NativeType::Int | NativeType::BigInt | NativeType::SmallInt | NativeType::TinyInt | NativeType::Varint,
        ) => id.parse().map(Scalar::Int).ok(),
        ColumnType::Native(NativeType::Double | NativeType::Float) => id.parse().map(Scalar::Float).ok(),
        _ => None,
    };
    encode(&value.unwrap_or(Scalar::Text(Cow::Borrowed(id))), column, out).map(drop)
}

/// Appends a count in 4 bytes, and the bytes that `fill` appends; `fill` returns the count or an error.
fn counted(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<i32, Mismatch>) -> Result<(), Mismatch> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let count = fill(out)?;
    out[at..at + 4].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

/// Appends the elements of a JSON array and returns their number. `column` returns the type of each index; `sized`
/// elements have a length prefix. Fails for an element that does not fit, and with `within` for a malformed array.
fn elements<'t, 'f: 't>(
    json: &[u8],
    out: &mut Vec<u8>,
    column: impl Fn(usize) -> Option<&'t ColumnType<'f>>,
    sized: bool,
    within: &impl Fn() -> Mismatch,
) -> Result<i32, Mismatch> {
    let (mut count, mut failure) = (0, None);
    let walked = Cursor::new(json).array(|index, cursor| {
        let value = cursor.value()?;
        let done = column(index).ok_or_else(within).and_then(|column| match sized {
            true => one(value, column, out, within),
            false => Scalar::parse(value).ok_or_else(within).and_then(|value| encode(&value, column, out).map(drop)),
        });
        count += 1;
        failure = done.err();
        Ok(failure.is_none())
    });
    walked.map_err(|_| within())?;
    failure.map_or(Ok(count), Err)
}

/// Appends the members of a JSON object as keys and values, and returns their number. `key` and `element` are their
/// types. Fails for a member that does not fit, and with `within` for a malformed object.
fn pairs(
    json: &[u8],
    key: &ColumnType,
    element: &ColumnType,
    out: &mut Vec<u8>,
    within: &impl Fn() -> Mismatch,
) -> Result<i32, Mismatch> {
    let (mut count, mut failure) = (0, None);
    let walked = Cursor::new(json).object(|name, cursor| {
        let value = cursor.value()?;
        let name = String::from_utf8_lossy(name);
        let done = sized(out, |out| encode_id(&name, key, out).map(|()| true));
        failure = done.and_then(|()| one(value, element, out, within)).err();
        count += 1;
        Ok(failure.is_none())
    });
    walked.map_err(|_| within())?;
    failure.map_or(Ok(count), Err)
}

/// Appends one JSON value with its length, in the format of `column`. Fails for a value that does not fit, and with
/// `within` if `json` is malformed.
fn one(json: &[u8], column: &ColumnType, out: &mut Vec<u8>, within: &impl Fn() -> Mismatch) -> Result<(), Mismatch> {
    let value = Scalar::parse(json).ok_or_else(within)?;
    sized(out, |out| encode(&value, column, out))
}

/// Appends a length in 4 bytes, and the bytes that `fill` appends; the length is -1, for null, if `fill` returns false.
/// Returns the error of `fill`.
fn sized(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<bool, Mismatch>) -> Result<(), Mismatch> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let length = if fill(out)? { (out.len() - at - 4) as i32 } else { -1 };
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends the value's bytes in the format of a native type, without their length. Returns true. Refuses null and a
/// value that does not fit the type.
fn scalar(value: &Scalar, native: &NativeType, out: &mut Vec<u8>) -> Result<bool, Mismatch> {
    let wrong = || mismatch(value, &ColumnType::Native(native.clone()));
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    match (native, value) {
        (NativeType::Text | NativeType::Ascii, Scalar::Text(text)) => put(text.as_bytes()),
        // A nested document, if the table declares no type for it.
        (NativeType::Text, Scalar::Json(json)) => put(json),
        (NativeType::Boolean, Scalar::Bool(yes)) => put(&[u8::from(*yes)]),
        (NativeType::TinyInt, Scalar::Int(n)) => put(&i8::try_from(*n).map_err(|_| wrong())?.to_be_bytes()),
        (NativeType::SmallInt, Scalar::Int(n)) => put(&i16::try_from(*n).map_err(|_| wrong())?.to_be_bytes()),
        (NativeType::Int, Scalar::Int(n)) => put(&i32::try_from(*n).map_err(|_| wrong())?.to_be_bytes()),
        (NativeType::BigInt | NativeType::Counter | NativeType::Timestamp | NativeType::Time, Scalar::Int(n)) => {
            put(&n.to_be_bytes());
        }
        (NativeType::Varint, Scalar::Int(n)) => put(shortest(&i128::from(*n).to_be_bytes())),
        (NativeType::Double, Scalar::Int(n)) => put(&(*n as f64).to_be_bytes()),
        (NativeType::Double, Scalar::Float(x)) => put(&x.to_be_bytes()),
        (NativeType::Float, Scalar::Int(n)) => put(&(*n as f32).to_be_bytes()),
        (NativeType::Float, Scalar::Float(x)) => put(&(*x as f32).to_be_bytes()),
        (NativeType::Decimal, Scalar::Int(n)) => decimal(&n.to_string(), out).ok_or_else(wrong)?,
        (NativeType::Decimal, Scalar::Float(x)) => decimal(&x.to_string(), out).ok_or_else(wrong)?,
        (NativeType::Decimal, Scalar::Text(text)) => decimal(text, out).ok_or_else(wrong)?,
        (NativeType::Timestamp, Scalar::Text(text)) => {
            put(&instant::milliseconds(text).ok_or_else(wrong)?.to_be_bytes());
        }
        (NativeType::Date, Scalar::Text(text)) => put(&instant::date(text).ok_or_else(wrong)?.to_be_bytes()),
        (NativeType::Time, Scalar::Text(text)) => put(&instant::nanoseconds(text).ok_or_else(wrong)?.to_be_bytes()),
        (NativeType::Uuid | NativeType::Timeuuid, Scalar::Text(text)) => {
            put(Uuid::try_parse(text).map_err(|_| wrong())?.as_bytes())
        }
        (NativeType::Inet, Scalar::Text(text)) => match text.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => put(&address.octets()),
            IpAddr::V6(address) => put(&address.octets()),
        },
        (NativeType::Blob, Scalar::Text(text)) => match text.strip_prefix("0x") {
            Some(digits) => put(&hexadecimal(digits).ok_or_else(wrong)?),
            None => put(text.as_bytes()),
        },
        _ => return Err(wrong()),
    }
    Ok(true)
}

/// Shortens a big-endian two's complement number to its significant bytes, at least one.
fn shortest(bytes: &[u8; 16]) -> &[u8] {
    let mut rest = &bytes[..];
    while let [first, second, ..] = rest {
        let says_nothing = (*first == 0 && *second < 0x80) || (*first == 0xff && *second >= 0x80);
        if !says_nothing {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

/// Appends a decimal number as its scale and its unscaled value. Returns `None` if `text` is not plain digits with an
/// optional sign and point, or too long for 128 bits.
fn decimal(text: &str, out: &mut Vec<u8>) -> Option<()> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    out.extend_from_slice(&(fraction.len() as i32).to_be_bytes());
    out.extend_from_slice(shortest(&unscaled.to_be_bytes()));
    Some(())
}

/// Converts hexadecimal digits to bytes; `None` if they are not pairs of digits.
fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    // `from_str_radix` also reads a sign.
    let valid = digits.len().is_multiple_of(2) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if valid { digits.as_bytes().chunks(2).map(pair).collect() } else { None }
}

/// Returns the error that a value does not fit a column; shows at most 40 characters of the value.
fn mismatch(value: &Scalar, column: &ColumnType) -> Mismatch {
    let shown = match value {
        Scalar::Null => "null".to_owned(),
        Scalar::Bool(yes) => yes.to_string(),
        Scalar::Int(whole) => format!("the whole number {whole}"),
        Scalar::Float(number) => format!("the number {number}"),
        Scalar::Text(text) => format!("the text {:?}", text.chars().take(40).collect::<String>()),
        Scalar::Json(json) => String::from_utf8_lossy(&json[..json.len().min(40)]).into_owned(),
    };
    Mismatch(format!("{shown} does not go into a column of type {}", name(column)))
}

/// Returns the type's name in CQL.
pub fn name(column: &ColumnType) -> String {
    match column {
        ColumnType::Native(native) => format!("{native:?}").to_lowercase(),
        ColumnType::Collection { typ: CollectionType::List(element), .. } => format!("list<{}>", name(element)),
        ColumnType::Collection { typ: CollectionType::Set(element), .. } => format!("set<{}>", name(element)),
        ColumnType::Collection { typ: CollectionType::Map(key, element), .. } => {
            format!("map<{}, {}>", name(key), name(element))
        }
        ColumnType::Vector { typ, dimensions } => format!("vector<{}, {dimensions}>", name(typ)),
        ColumnType::Tuple(types) => format!("tuple<{}>", types.iter().map(name).collect::<Vec<_>>().join(", ")),
        ColumnType::UserDefinedType { definition, .. } => definition.name.to_string(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the column type of a native type.
    fn native(native: NativeType) -> ColumnType<'static> {
        ColumnType::Native(native)
    }

    /// Encodes a JSON value for a column; `None` for null. Returns the error's message.
    fn bytes(json: &str, column: &ColumnType) -> Result<Option<Vec<u8>>, String> {
        let mut out = Vec::new();
        let there = encode(&Scalar::parse(json.as_bytes()).unwrap(), column, &mut out).map_err(|error| error.0)?;
        Ok(there.then_some(out))
    }

    #[test]
    fn each_type_has_its_bytes() {
        let encoded = |json: &str, typ: NativeType| bytes(json, &native(typ)).unwrap().unwrap();
        assert_eq!(encoded(r#""a\"é""#, NativeType::Text), "a\"é".as_bytes());
        assert_eq!(encoded(r#"{"a": 1}"#, NativeType::Text), br#"{"a": 1}"#);
        assert_eq!(encoded("7", NativeType::Int), [0, 0, 0, 7]);
        assert_eq!(encoded("-2", NativeType::BigInt), (-2i64).to_be_bytes());
        assert_eq!(encoded("-128", NativeType::Varint), [0x80]);
        assert_eq!(encoded("128", NativeType::Varint), [0, 0x80]);
        assert_eq!(encoded("3", NativeType::Double), 3f64.to_be_bytes());
        assert_eq!(encoded("0.5", NativeType::Float), 0.5f32.to_be_bytes());
        assert_eq!(encoded("12.75", NativeType::Decimal), [0, 0, 0, 2, 0x04, 0xfb]);
        assert_eq!(encoded("true", NativeType::Boolean), [1]);
        assert_eq!(encoded(r#""0x00ff""#, NativeType::Blob), [0, 0xff]);
        assert_eq!(encoded(r#""ab""#, NativeType::Blob), b"ab");
        assert_eq!(encoded(r#""127.0.0.2""#, NativeType::Inet), [127, 0, 0, 2]);
        assert_eq!(encoded(r#""1970-01-01T00:00:01Z""#, NativeType::Timestamp), 1000i64.to_be_bytes());
        assert_eq!(encoded(r#""1970-01-02""#, NativeType::Date), (2u32.pow(31) + 1).to_be_bytes());
        let id = encoded(r#""00112233-4455-6677-8899-aabbccddeeff""#, NativeType::Uuid);
        assert_eq!((id.len(), id[1], id[15]), (16, 0x11, 0xff));
        assert_eq!(bytes("null", &native(NativeType::Int)), Ok(None));
    }

    #[test]
    fn collections_carry_their_elements_with_lengths() {
        let frozen = true;
        let list = ColumnType::Collection { frozen, typ: CollectionType::List(Box::new(native(NativeType::SmallInt))) };
        assert_eq!(bytes("[1,2]", &list).unwrap().unwrap(), [0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0, 0, 0, 2, 0, 2]);
        let typ = CollectionType::Map(Box::new(native(NativeType::Text)), Box::new(native(NativeType::TinyInt)));
        let map = ColumnType::Collection { frozen, typ };
        assert_eq!(bytes(r#"{"a": 1}"#, &map).unwrap().unwrap(), [0, 0, 0, 1, 0, 0, 0, 1, b'a', 0, 0, 0, 1, 1]);
        let vector = ColumnType::Vector { typ: Box::new(native(NativeType::Float)), dimensions: 2 };
        assert_eq!(bytes("[0.5,1]", &vector).unwrap().unwrap().len(), 8);
        assert!(bytes("[0.5]", &vector).is_err(), "a vector has all its dimensions");
        assert_eq!(bytes("[]", &list).unwrap().unwrap(), [0, 0, 0, 0]);
    }

    #[test]
    fn values_of_the_wrong_type_are_refused() {
        let error = |json: &str, typ: NativeType| bytes(json, &native(typ)).unwrap_err();
        assert_eq!(error(r#""x""#, NativeType::Int), "the text \"x\" does not go into a column of type int");
        assert_eq!(error("300", NativeType::TinyInt), "the whole number 300 does not go into a column of type tinyint");
        assert_eq!(error("0.5", NativeType::BigInt), "the number 0.5 does not go into a column of type bigint");
        assert!(error("1", NativeType::Text).ends_with("type text"));
        assert!(error(r#""today""#, NativeType::Timestamp).ends_with("type timestamp"));
        assert!(error(r#""0011""#, NativeType::Uuid).ends_with("type uuid"));
        assert!(error(r#""0x+f""#, NativeType::Blob).ends_with("type blob"));
        let typ = CollectionType::Set(Box::new(native(NativeType::Int)));
        let set = ColumnType::Collection { frozen: false, typ };
        assert_eq!(bytes("7", &set).unwrap_err(), "the whole number 7 does not go into a column of type set<int>");
        assert_eq!(bytes(r#"["x"]"#, &set).unwrap_err(), "the text \"x\" does not go into a column of type int");
    }

    #[test]
    fn an_id_is_read_as_the_number_that_its_column_wants() {
        let id = |id: &str, typ: NativeType| {
            let mut out = Vec::new();
            encode_id(id, &native(typ), &mut out).map(|()| out)
        };
        assert_eq!(id("12", NativeType::BigInt).unwrap(), 12i64.to_be_bytes());
        assert_eq!(id("12", NativeType::Text).unwrap(), b"12");
        assert!(id("user12", NativeType::Int).unwrap_err().0.contains("user12"));
    }
}
