//! Requests and answers for some fields of a document. The store reads or changes them without transferring the rest.

use super::packet::Response;

/// Maximum number of fields in one request, a limit of the store.
pub const FIELDS: usize = 16;

/// Status of an answer with at least one missing field.
pub const SOME_FAILED: u16 = 0xcc;

/// Status of a field that the document lacks.
const MISSING: u16 = 0xc0;

/// Operation code that reads a field.
const GET: u8 = 0xc5;
/// Operation code that changes a field.
const PUT: u8 = 0xc8;
/// Flag in the extras of a change: create the document if it does not exist.
pub const MAKE: u8 = 0x01;

/// Appends the read of a field to `out`.
pub fn get(out: &mut Vec<u8>, field: &[u8]) {
    spec(out, GET, field, None);
}

/// Appends the change of a field to `out`; `value` is its new value in JSON.
pub fn put(out: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    spec(out, PUT, field, Some(value));
}

/// Appends the read or change of one field to `out`: opcode, flags, lengths, path and, if given, the value.
fn spec(out: &mut Vec<u8>, opcode: u8, field: &[u8], value: Option<&[u8]>) {
    let start = out.len();
    out.extend_from_slice(&[opcode, 0, 0, 0]);
    if value.is_some() {
        out.extend_from_slice(&[0; 4]);
    }
    let from = out.len();
    path(out, field);
    let length = (out.len() - from) as u16;
    out[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    if let Some(value) = value {
        out[start + 4..start + 8].copy_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(value);
    }
}

/// Appends a field's name as a path. Quotes it if it contains path syntax.
fn path(out: &mut Vec<u8>, field: &[u8]) {
    if !field.iter().any(|byte| b".[]`".contains(byte)) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'`');
    for byte in field {
        if *byte == b'`' {
            out.push(b'`');
        }
        out.push(*byte);
    }
    out.push(b'`');
}

/// Returns the fields of an answer in request order: the JSON of each, or `None` if the store did not return it. Ends
/// before a field that is cut off.
pub fn values_found<'a>(answer: &Response<'a>) -> impl Iterator<Item = Option<&'a [u8]>> {
    read_fields(answer).map(|(status, value)| (status == 0).then_some(value))
}

/// Returns the first status of a read field that is neither success nor that the document lacks the field; `None` if
/// there is none.
pub fn unreadable(answer: &Response<'_>) -> Option<u16> {
    read_fields(answer).map(|(status, _)| status).find(|status| ![0, MISSING].contains(status))
}

/// Returns the status and the JSON of each field of an answer, in request order. Ends before a field that is cut off.
fn read_fields<'a>(answer: &Response<'a>) -> impl Iterator<Item = (u16, &'a [u8])> {
    let mut rest = answer.value;
    std::iter::from_fn(move || {
        let (head, after) = rest.split_at_checked(6)?;
        let length = u32::from_be_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (value, after) = after.split_at_checked(length)?;
        rest = after;
        Some((u16::from_be_bytes([head[0], head[1]]), value))
    })
}

/// Returns the status of the field that made a change fail; `None` if the answer has another form.
pub fn culprit(answer: &Response<'_>) -> Option<u16> {
    match answer.value {
        [_, high, low] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a field's name is quoted if it contains path syntax.
    #[test]
    fn a_field_is_a_path_of_one_name() {
        let mut out = Vec::new();
        get(&mut out, b"age");
        assert_eq!(out, b"\xc5\x00\x00\x03age");
        out.clear();
        put(&mut out, b"a.b`c", b"1");
        assert_eq!(out, b"\xc8\x00\x00\x08\x00\x00\x00\x01`a.b``c`1");
    }

    #[test]
    fn a_missing_field_is_none_among_existing_ones() {
        let value = b"\x00\x00\x00\x00\x00\x0242\x00\xc0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\"a\"";
        let fields: Vec<_> = values_found(&Response { status: SOME_FAILED, value }).collect();
        assert_eq!(fields, [Some(&b"42"[..]), None, Some(b"\"a\"")]);
        assert_eq!(values_found(&Response { status: 0, value: b"\x00\x00\xff\xff\xff\xff1" }).count(), 0);
    }

    #[test]
    fn a_failed_change_names_the_fields_status() {
        assert_eq!(culprit(&Response { status: SOME_FAILED, value: b"\x01\x00\xc1" }), Some(0xc1));
        assert_eq!(culprit(&Response { status: SOME_FAILED, value: b"" }), None);
    }
}
