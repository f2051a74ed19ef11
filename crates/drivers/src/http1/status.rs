//! What an answer's status means, regardless of its body.

use loadframe_engine::driver::ErrorClass;

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
