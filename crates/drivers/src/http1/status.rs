//! Classification of an answer by its status alone.

use loadframe_engine::driver::ErrorClass;

/// Returns the error class of an HTTP status: `None` for 200 to 299, `Rejected` for 429, `Timeout` for 408 and 504,
/// `Server` for others from 500 on, `Client` for the rest, also redirections.
pub fn class_of(status: u16) -> Option<ErrorClass> {
    match status {
        200..=299 => None,
        429 => Some(ErrorClass::Rejected),
        408 | 504 => Some(ErrorClass::Timeout),
        500.. => Some(ErrorClass::Server),
        _ => Some(ErrorClass::Client),
    }
}
