//! Events that are made up instead of received: the lines of a log, in the order of their instants.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::nearest::unknown;
use crate::plan::PlanError;
use crate::profile::Profile;
use crate::schedule::Share;

/// What a generator of events is made from.
#[derive(Debug)]
pub struct Order<'a> {
    /// Fixes everything random, together with a document's number.
    pub seed: u64,
    /// New documents per second, over all generators: document *k* begins at `rate.inverse(k)` seconds.
    pub rate: Profile,
    /// How many documents there are, over all generators; without it there is no end.
    pub documents: Option<u64>,
    /// The instant of the events at the load's start: milliseconds since 1970.
    pub start: i64,
    /// Which documents are this generator's own: all of their events are its, too.
    pub share: Share,
    /// What the plan says `with`.
    pub with: &'a Map<String, Value>,
}

/// Makes the lines of a log, one after the other.
pub trait Generate: Send {
    /// Appends the next line, without its end, and returns when it is due after the load's start, which is never before
    /// the line before it; `None` when there are no more.
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Duration>;
}

type New = fn(&Order<'_>) -> Result<Box<dyn Generate>, PlanError>;

const GENERATORS: [(&str, New); 0] = [];

/// The generator of that name; the error names the nearest.
pub fn generator(name: &str, order: &Order<'_>) -> Result<Box<dyn Generate>, PlanError> {
    match GENERATORS.iter().find(|(known, _)| *known == name) {
        Some((_, new)) => new(order),
        None => Err(PlanError::new(unknown("generator of events", name, GENERATORS.map(|(known, _)| known)))),
    }
}
