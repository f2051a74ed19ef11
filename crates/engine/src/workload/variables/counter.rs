//! Counters, which number the requests that use them, and records to draw from: existing ones, and those
//! inserted under a counter.

use serde_json::Value;

use super::VariableId;
use super::form::Form;
use crate::plan::PlanError;
use crate::util::draw::{Draw, mix};

/// Range of the random start of a `fresh` counter, added to its `from`.
const FRESH: u64 = 1 << 49;

/// Inputs of a counter's start value.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The run's seed.
    pub seed: u64,
    /// The hash of the phase's name.
    pub phase: u64,
}

/// Counter of requests, beginning with `start`.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    from: i64,
    /// Number of values before it restarts.
    items: u64,
    fresh: bool,
    start: i64,
}

impl Counter {
    /// Parses `{from: 0, items: none, fresh: false}`; refuses other keys and values.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("counter", argument, &["from", "items", "fresh"])?;
        let items = if form.get("items").is_some() { form.items("items")? } else { u64::MAX };
        let from = form.whole("from", 0)?;
        Ok(Self { from, items, fresh: form.flag("fresh")?, start: from })
    }

    /// Returns the number of the `nth` request that uses the counter, counted from 0; after `items` requests the
    /// numbers repeat.
    #[inline]
    pub fn number(&self, nth: u64) -> i64 {
        self.start.wrapping_add_unsigned(nth % self.items)
    }

    /// Sets the start: `from`, plus for a `fresh` counter a random number that depends on the run and the phase.
    pub fn origin(&mut self, origin: Origin) {
        let shift = if self.fresh { mix(origin.seed ^ mix(origin.phase)) % FRESH } else { 0 };
        self.start = self.from.wrapping_add_unsigned(shift);
    }
}

/// Records by number: `items` records starting with `from`, followed by the inserted ones, the newest last.
#[derive(Clone, Debug)]
pub struct Records {
    from: i64,
    items: u64,
    pub inserted: Inserted,
}

#[derive(Clone, Debug)]
pub enum Inserted {
    None,
    /// Unresolved: the name of the counter.
    Named(String),
    By(VariableId, Counter),
}

impl Records {
    /// Parses the keys `from`, `items` and, if records may be inserted, the counter's name in `inserted`. Refuses
    /// other values.
    pub fn new(form: &Form<'_>) -> Result<Self, PlanError> {
        let inserted = match form.get("inserted") {
            Some(_) => Inserted::Named(form.text("inserted")?.to_owned()),
            None => Inserted::None,
        };
        Ok(Self { from: form.whole("from", 0)?, items: form.items("items")?, inserted })
    }

    /// Returns the number of records that exist before the first insert.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Returns whether requests insert records under a counter.
    pub fn grow(&self) -> bool {
        !matches!(self.inserted, Inserted::None)
    }

    /// Returns the number of records known to exist at the start of request `draw`.
    #[inline]
    pub fn there(&self, draw: &Draw) -> u64 {
        if self.grow() { self.items + draw.settled } else { self.items }
    }

    /// Returns the number of the record with index `place`, the oldest first, whether it exists yet or not.
    #[inline]
    pub fn number(&self, place: u64) -> i64 {
        match &self.inserted {
            Inserted::By(_, counter) if place >= self.items => counter.number(place - self.items),
            _ => self.from.wrapping_add_unsigned(place),
        }
    }

    /// Returns the number of the record with index `place`, the oldest first; `None` unless it is known to exist at the
    /// start of the request.
    #[inline]
    pub fn present(&self, place: u64, draw: &Draw) -> Option<i64> {
        (place < self.there(draw)).then(|| self.number(place))
    }
}
