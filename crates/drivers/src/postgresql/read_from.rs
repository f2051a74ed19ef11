//! Choice of servers for a request, and its keywords.

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use serde_json::Value;

/// The servers that may answer. Replicas lag behind the primary, so reads from them may be stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFrom {
    /// The server that takes writes.
    Primary,
    /// A replica.
    Replica,
    /// A replica, or the primary if there is none.
    PreferReplica,
    /// Any server.
    Any,
}

/// The choices of servers, by their names in workloads.
const PLACES: [(&str, ReadFrom); 4] = [
    ("primary", ReadFrom::Primary),
    ("replica", ReadFrom::Replica),
    ("prefer_replica", ReadFrom::PreferReplica),
    ("any", ReadFrom::Any),
];

impl ReadFrom {
    /// Parses the keyword, such as "replica". Refuses others.
    pub fn parse(value: &Value) -> Result<Self, PlanError> {
        word("read_from", value, &PLACES)
    }
}

/// Returns the meaning of the keyword `value` in `words`. Refuses others; `key` names the option in the error.
pub fn word<T: Copy>(key: &str, value: &Value, words: &[(&str, T)]) -> Result<T, PlanError> {
    let name = value.as_str().ok_or_else(|| PlanError::new(format!("\"{key}\" wants a name, not {value}")))?;
    match words.iter().find(|(known, _)| *known == name) {
        Some((_, meaning)) => Ok(*meaning),
        None => Err(PlanError::new(unknown(key, name, words.iter().map(|(known, _)| *known)))),
    }
}
