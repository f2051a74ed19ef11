//! Interpretation of answers.

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use serde_json::{Map, Value};

use super::packet::Response;
use super::subdoc::{SOME_FAILED, culprit, unreadable, values_found};
use crate::assertion::Assertion;
use crate::capture::{Captures, Memory, Place};
use crate::crud::Neutral;

/// Status of a node that does not own the vbucket, or no longer owns it.
pub const NOT_MINE: u16 = 0x07;

/// Each error status, its class and its message.
const STATUSES: [(u16, ErrorClass, &str); 26] = [
    (0x01, ErrorClass::Client, "not found"),
    (0x02, ErrorClass::Client, "already there"),
    (0x03, ErrorClass::Client, "the document is too large"),
    (0x04, ErrorClass::Client, "the request is invalid"),
    (0x05, ErrorClass::Client, "already there"),
    (NOT_MINE, ErrorClass::Server, "the node does not have that vbucket"),
    (0x08, ErrorClass::Client, "the bucket does not exist"),
    (0x09, ErrorClass::Client, "the document is locked"),
    (0x20, ErrorClass::Client, "the server does not know that user and password"),
    (0x22, ErrorClass::Client, "a number is out of range"),
    (0x24, ErrorClass::Client, "the user lacks the permission"),
    (0x81, ErrorClass::Client, "the server does not know the request"),
    (0x82, ErrorClass::Rejected, "the server is out of memory"),
    (0x83, ErrorClass::Client, "the server does not support the request"),
    (0x84, ErrorClass::Server, "the server has failed"),
    (0x85, ErrorClass::Rejected, "the server is busy"),
    (0x86, ErrorClass::Rejected, "the server has failed for the moment"),
    (0xa0, ErrorClass::Client, "the durability level does not exist"),
    (0xa1, ErrorClass::Server, "the durability is impossible, with as few replicas as there are now"),
    (0xa2, ErrorClass::Rejected, "a durable write of the same document is under way"),
    (0xa3, ErrorClass::Timeout, "whether the durable write was done is unknown"),
    (0xa4, ErrorClass::Rejected, "a durable write of the same document is being committed again"),
    (0xc1, ErrorClass::Client, "a field's place is not a mapping"),
    (0xc2, ErrorClass::Client, "a field's name is not a path"),
    (0xc5, ErrorClass::Client, "the value is not JSON"),
    (0xc6, ErrorClass::Client, "the document is not JSON"),
];

/// Returns the failure for an answer with a status other than 0: its class, and a message with the server's own text.
pub fn refusal(answer: &Response<'_>) -> Failure {
    let status = if answer.status == SOME_FAILED { culprit(answer).unwrap_or(SOME_FAILED) } else { answer.status };
    refused(status, answer.value)
}

/// Returns the failure for a status of a document or of one of its fields, with the server's text in `value`, if any.
fn refused(status: u16, value: &[u8]) -> Failure {
    let known = STATUSES.iter().find(|(known, _, _)| *known == status);
    let (class, words) =
        known.map_or((ErrorClass::Server, "a status that is not known"), |(_, class, words)| (*class, words));
    let mut message = words.to_string();
    if known.is_none() {
        message = format!("{message}: {status:#04x}");
    }
    if let Some(context) = context(value) {
        message = format!("{message} ({context})");
    }
    Failure::new(class, message)
}

/// Returns the server's own error text in the `value` of an answer; `None` if there is none.
fn context(value: &[u8]) -> Option<String> {
    let told: Value = serde_json::from_slice(value).ok()?;
    let words = told.pointer("/error/context")?.as_str()?;
    Some(words.to_owned()).filter(|words| !words.is_empty())
}

/// Returns a failure of class Client, caused by an invalid request.
pub fn client(message: &str) -> Failure {
    Failure::new(ErrorClass::Client, message)
}

/// Checks status and assertion of the answer to a verb's request, and captures values into `memory`. Returns the number
/// of documents, which is 1. Fields that the document lacks are not a failure.
pub fn judge(
    neutral: &Neutral,
    answer: &Response<'_>,
    (assertion, captures): (Option<&Assertion>, &Captures<Place>),
    values: &Values,
    memory: &mut Memory,
) -> Result<u64, Failure> {
    let fields = matches!(neutral, Neutral::Read(read) if !read.fields.is_empty());
    if answer.status != 0 && !(fields && answer.status == SOME_FAILED) {
        return Err(refusal(answer));
    }
    if fields && let Some(status) = unreadable(answer) {
        return Err(refused(status, b""));
    }
    if assertion.is_some() || !captures.is_empty() {
        let document = document(neutral, answer, values);
        if let Some(assertion) = assertion {
            assertion.judge_hits(1, "")?;
            assertion.judge_json(values, Some(&document), b"")?;
        }
        memory.take(captures, |name, place| Ok(place.in_json(name, Some(&document))))?;
    }
    Ok(1)
}

/// Returns the document of an answer as JSON. For a read of some fields, it contains those that exist; for a write, it
/// is the answer's value.
pub fn document(neutral: &Neutral, answer: &Response<'_>, values: &Values) -> Vec<u8> {
    match neutral {
        Neutral::Read(read) if !read.fields.is_empty() => {
            let mut document = Map::new();
            for (name, json) in read.names(values).into_iter().zip(values_found(answer)) {
                if let Some(value) = json.and_then(|json| serde_json::from_slice(json).ok()) {
                    document.insert(name, value);
                }
            }
            Value::Object(document).to_string().into_bytes()
        }
        _ => answer.value.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_contain_the_status_and_the_servers_text() {
        let told = |status, value: &'static [u8]| {
            let failure = refusal(&Response { status, value });
            (failure.class, failure.message)
        };
        assert_eq!(told(0x01, b""), (ErrorClass::Client, "not found".into()));
        assert_eq!(told(0x86, b"busy"), (ErrorClass::Rejected, "the server has failed for the moment".into()));
        let words = b"{\"error\":{\"context\":\"flags are wrong\"}}";
        assert_eq!(told(0x04, words), (ErrorClass::Client, "the request is invalid (flags are wrong)".into()));
        assert_eq!(told(0x77, b""), (ErrorClass::Server, "a status that is not known: 0x77".into()));
        assert_eq!(told(SOME_FAILED, b"\x00\x00\xc5"), (ErrorClass::Client, "the value is not JSON".into()));
    }
}
