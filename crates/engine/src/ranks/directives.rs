//! What rank 0 tells all ranks after each second, having seen the sum: the least that they cannot know by themselves.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// End the phase now: a condition of the plan was met.
    pub stop: bool,
    /// A stream whose end ends the phase is over on all ranks.
    pub over: bool,
    /// How many numbers of each counter are settled over all ranks.
    pub settled: Vec<u64>,
    /// The latest step of the clock that the users of each stream share: its number, and where the clock goes.
    pub clocks: Vec<(u64, i64)>,
}

impl Directives {
    /// For sending.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("nothing in it cannot be written")
    }

    /// Reads what [`Self::to_bytes`] has written; an error in words for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        postcard::from_bytes(bytes).map_err(|error| format!("these are not orders: {error}"))
    }
}
