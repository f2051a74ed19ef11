//! Classification of an answer by its status alone.

use loadframe_engine::driver::ErrorClass;

/// Returns the error class of an HTTP status: `None` for 200 to 299. Statuses below 500 are `Client`, except overload
/// (429) and timeouts (408).
pub fn class_of(status: u16) -> Option<ErrorClass> {
    match status {
        200..=299 => None,
        429 => Some(ErrorClass::Rejected),
        408 | 504 => Some(ErrorClass::Timeout),
        500.. => Some(ErrorClass::Server),
        _ => Some(ErrorClass::Client),
    }
}
