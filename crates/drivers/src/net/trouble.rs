//! Failures without an answer: a broken connection or a timeout.

use loadframe_engine::driver::{ErrorClass, Failure};

use super::deadline::Limit;

/// A request without an answer.
#[derive(Debug)]
pub struct Trouble {
    /// Connect or Timeout.
    pub class: ErrorClass,
    /// Readable reason.
    pub message: String,
}

impl Trouble {
    /// Returns the failure, of class Connect, of a connection that could not be opened, or broke.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { class: ErrorClass::Connect, message: message.into() }
    }

    /// Returns a timeout. `what` names the missing event, such as "no answer".
    pub fn late(what: &str, limit: Limit) -> Self {
        Self { class: ErrorClass::Timeout, message: format!("{what} within {} s", limit.timeout.as_secs_f64()) }
    }
}

impl From<Trouble> for Failure {
    /// Converts it to the failure of a request without an answer.
    fn from(Trouble { class, message }: Trouble) -> Self {
        Self::new(class, message)
    }
}
