//! What is told apart of an operation's executions: the first of each request, and how fresh answers are.
//!
//! A store keeps what an answer was made from, and often the answer itself, so the first execution of a request may take
//! far longer than later ones. Two executions are of the same request if all variables that the operation names have the
//! same values.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::driver::{Reply, ReplyPart};
use crate::util::draw::fnv;
use crate::workload::variables::{Encoding, Values, VariableId};

/// The parts of an operation whose first executions are told apart.
const FIRST: [&str; 2] = ["first", "again"];

/// The part of an operation whose answers show events: how old the newest event is that an answer can be relied upon to
/// show.
const AGE: &str = "age";

/// So many requests are remembered. Executions of further ones are in neither part.
const MOST: usize = 1 << 22;

/// What is told apart of an operation's executions.
#[derive(Clone, Debug, Default)]
pub struct FirstExecutions {
    /// The place of its first part among those of the operation.
    pub place: usize,
    /// The requests that were executed, if first executions are told apart.
    pub requests: Option<Arc<Requests>>,
    /// The stream whose events its answers show, if it is recorded how old these are.
    pub shows: Option<usize>,
}

impl FirstExecutions {
    /// The names of its parts.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        let first = self.requests.iter().flat_map(|_| FIRST);
        first.chain(self.shows.map(|_| AGE))
    }

    /// Adds its parts to a request that was due at `scheduled`. `is_first` is what [`Requests::is_first`] said of it, and
    /// `newest` when the newest event had arrived that was seen before it was sent.
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

/// The requests of an operation that were executed in a phase, by all of its clients.
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
    /// Those of an operation that names these variables.
    pub fn new(variables: Vec<VariableId>) -> Self {
        Self { variables, known: Mutex::default() }
    }

    /// Whether the request with these values is executed for the first time; `None` if there were too many to know.
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
