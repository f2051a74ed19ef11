//! Directives from rank 0 to all ranks after each second: facts that only the sum of all ranks shows.

use serde::{Deserialize, Serialize};

/// Directives after one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// End the phase now: a condition of the plan was met.
    pub stop: bool,
    /// A stream that ends the phase is over on all ranks.
    pub over: bool,
    /// Settled numbers of each counter over all ranks.
    pub settled: Vec<u64>,
    /// Latest step of each stream's shared clock: its number and the new time.
    pub clocks: Vec<(u64, i64)>,
}

impl Directives {
    /// Serializes the directives.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("nothing in it cannot be written")
    }

    /// Parses the output of [`Self::to_bytes`]; fails for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        postcard::from_bytes(bytes).map_err(|error| format!("not directives of a rank: {error}"))
    }
}
