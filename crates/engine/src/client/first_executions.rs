//! Additional parts of an operation's record: first and repeated executions, and the age of shown events.
//!
//! Stores cache the data that an answer needs, and often the answer. The first execution of a request may
//! therefore take much longer than later ones. Two executions count as the same request if all variables that
//! the operation names have equal values.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::driver::{Reply, ReplyPart};
use crate::util::draw::fnv;
use crate::workload::variables::{Encoding, Values, VariableId};

/// Part names for first and repeated executions.
const FIRST: [&str; 2] = ["first", "again"];

/// Part name for data age: the time since the newest visible event arrived, at the end of the request.
const AGE: &str = "age";

/// Maximum number of requests remembered. Later new requests are recorded in neither part.
const MOST: usize = 1 << 22;

/// Additional parts of one operation.
#[derive(Clone, Debug, Default)]
pub struct FirstExecutions {
    /// Index of its first part among the operation's parts.
    pub place: usize,
    /// Requests executed so far, if first executions are recorded separately.
    pub requests: Option<Arc<Requests>>,
    /// Index of the stream that ingests the events shown, if data age is recorded.
    pub shows: Option<usize>,
}

impl FirstExecutions {
    /// Returns the names of its parts: `first` and `again` if executions are recorded separately, `age` if data age
    /// is.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        let first = self.requests.iter().flat_map(|_| FIRST);
        first.chain(self.shows.map(|_| AGE))
    }

    /// Adds its parts to the reply of a request due at `scheduled`. `is_first`: result of
    /// [`Requests::is_first`]. `newest`: arrival time of the newest event that was visible before sending; a failed
    /// request has no age.
    pub fn record(&self, scheduled: Instant, is_first: Option<bool>, newest: Option<Instant>, reply: &mut Reply) {
        let (done, documents) = (reply.done, reply.documents);
        let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
        if let Some(is_first) = is_first {
            let name = self.place + usize::from(!is_first);
            reply.parts.push(ReplyPart { name, sent: scheduled, done, documents, failed });
        }
        if let (Some(newest), None) = (newest, failed) {
            let name = self.place + self.requests.as_ref().map_or(0, |_| FIRST.len());
            reply.parts.push(ReplyPart { name, sent: newest, done, documents: 0, failed: None });
        }
    }
}

/// Distinct requests of an operation executed in a phase by any client.
#[derive(Debug, Default)]
pub struct Requests {
    variables: Vec<VariableId>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Hashes of the variables' values.
    prints: HashSet<u64>,
    text: Vec<u8>,
}

impl Requests {
    /// Creates the empty set of executed requests of an operation that names these variables.
    pub fn new(variables: Vec<VariableId>) -> Self {
        Self { variables, known: Mutex::default() }
    }

    /// Records an execution; returns whether it is the first with these values of the operation's variables. `None`
    /// for new values when the set is full.
    pub fn is_first(&self, values: &Values) -> Option<bool> {
        let mut known = self.known.lock().expect("no thread panics while it holds the lock");
        let Known { prints, text } = &mut *known;
        text.clear();
        for id in &self.variables {
            values.write(*id, Encoding::Json, text);
            text.push(0);
        }
        let fingerprint = fnv(text);
        if prints.contains(&fingerprint) {
            return Some(false);
        }
        (prints.len() < MOST).then(|| prints.insert(fingerprint))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::util::draw::Draw;
    use crate::workload::variables::{Captured, Variables};

    #[test]
    fn a_request_is_first_once_for_each_value_of_its_variables() {
        let forms = json!({"ad": {"uniform": [0, 2]}, "other": {"sequential": {"from": 0}}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        let is_first = |requests: &Requests, k| {
            let draw = Draw::new(1, 0, k);
            requests.is_first(&Values { variables: &variables, draw: &draw, captured: &Captured::NONE })
        };
        let asked = Requests::new(variables.named_in(&json!({"search": {"query": "${ad}"}})));
        let first = (0..50).filter(|k| is_first(&asked, *k).unwrap());
        assert_eq!(first.count(), 3);
        let fixed = Requests::new(variables.named_in(&json!({"search": {}})));
        assert_eq!((is_first(&fixed, 0), is_first(&fixed, 1)), (Some(true), Some(false)));
    }
}
