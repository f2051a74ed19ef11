//! Which servers a request may go to, and the words that stand for a choice.

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use serde_json::Value;

/// Which servers are asked. Replicas are behind the primary, so what is read from them may be old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The one that takes writes.
    Primary,
    /// One of the others.
    Replica,
    /// One of the others, or the primary when there are none.
    PreferReplica,
    /// All alike.
    Any,
}

const PLACES: [(&str, ReadFrom); 4] = [
    ("primary", ReadFrom::Primary),
    ("replica", ReadFrom::Replica),
    ("prefer_replica", ReadFrom::PreferReplica),
    ("any", ReadFrom::Any),
];

impl ReadFrom {
    /// Reads the word for it.
    pub fn parse(value: &Value) -> Result<Self, PlanError> {
        word("read_from", value, &PLACES)
    }
}

/// What the word at `key` stands for.
pub fn word<T: Copy>(key: &str, value: &Value, words: &[(&str, T)]) -> Result<T, PlanError> {
    let name = value.as_str().ok_or_else(|| PlanError::new(format!("\"{key}\" wants a name, not {value}")))?;
    match words.iter().find(|(known, _)| *known == name) {
        Some((_, meaning)) => Ok(*meaning),
        None => Err(PlanError::new(unknown(key, name, words.iter().map(|(known, _)| *known)))),
    }
}
