//! What an answer's status stands for, whatever its body says.

use loadframe_engine::driver::ErrorClass;

/// As much of a body as stands in a message when there is no better.
const EXCERPT: usize = 200;

/// The error that a status stands for; none if it says success.
pub fn class_of(status: u16) -> Option<ErrorClass> {
    match status {
        200..=299 => None,
        429 => Some(ErrorClass::Rejected),
        408 | 504 => Some(ErrorClass::Timeout),
        500.. => Some(ErrorClass::Server),
        _ => Some(ErrorClass::Client),
    }
}

/// The beginning of a body on one line.
pub fn excerpt(body: &[u8]) -> String {
    if body.is_empty() {
        return "an empty body".to_owned();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(EXCERPT)]);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if body.len() > EXCERPT { line + " ..." } else { line }
}
