//! Why a request has no answer: the connection failed, or the time was up.

use loadframe_engine::driver::{ErrorClass, Failure};

use super::deadline::Limit;

/// Why a request has no answer.
#[derive(Debug)]
pub struct Trouble {
    /// Connect or Timeout.
    pub class: ErrorClass,
    /// In words.
    pub message: String,
}

impl Trouble {
    /// The connection could not be made, or broke.
    pub fn broken(message: impl Into<String>) -> Self {
        Self { class: ErrorClass::Connect, message: message.into() }
    }

    /// Nothing happened in time.
    pub fn late(what: &str, limit: Limit) -> Self {
        Self { class: ErrorClass::Timeout, message: format!("{what} within {} s", limit.timeout.as_secs_f64()) }
    }
}

impl From<Trouble> for Failure {
    /// The failure of a request without an answer.
    fn from(Trouble { class, message }: Trouble) -> Self {
        Self::new(class, message)
    }
}
