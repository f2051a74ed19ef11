//! Counters, which number the requests that use them, and records, which laws choose from: those that are there when a
//! phase starts, and those whose inserts a counter numbers.

use serde_json::Value;

use super::VariableId;
use super::form::Form;
use crate::plan::PlanError;
use crate::util::draw::{Draw, mix};

/// A `fresh` counter begins up to this many numbers after its `from`.
const FRESH: u64 = 1 << 49;

/// What a counter's numbers depend on, besides the requests.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The run's seed.
    pub seed: u64,
    /// The hash of the phase's name.
    pub phase: u64,
}

/// Numbers the requests that use it, from `start`.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    from: i64,
    /// It begins again after this many numbers.
    items: u64,
    fresh: bool,
    start: i64,
}

impl Counter {
    /// `{from: 0, items: none, fresh: false}`.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("counter", argument, &["from", "items", "fresh"])?;
        let items = if form.get("items").is_some() { form.items("items")? } else { u64::MAX };
        let from = form.whole("from", 0)?;
        Ok(Self { from, items, fresh: form.flag("fresh")?, start: from })
    }

    /// The number that the `nth` request has that uses the counter, from 0.
    #[inline]
    pub fn number(&self, nth: u64) -> i64 {
        self.start.wrapping_add_unsigned(nth % self.items)
    }

    pub fn origin(&mut self, origin: Origin) {
        let shift = if self.fresh { mix(origin.seed ^ mix(origin.phase)) % FRESH } else { 0 };
        self.start = self.from.wrapping_add_unsigned(shift);
    }
}

/// Records, by their numbers: `items` from `from` on, and behind them those that the load inserts, the newest last.
#[derive(Clone, Debug)]
pub struct Records {
    from: i64,
    items: u64,
    pub inserted: Inserted,
}

#[derive(Clone, Debug)]
pub enum Inserted {
    None,
    /// As they are written: the name of the counter that numbers them.
    Named(String),
    By(VariableId, Counter),
}

impl Records {
    /// The keys `from`, `items` and, where records may be `inserted`, the name of their counter.
    pub fn new(form: &Form<'_>) -> Result<Self, PlanError> {
        let inserted = match form.get("inserted") {
            Some(_) => Inserted::Named(form.text("inserted")?.to_owned()),
            None => Inserted::None,
        };
        Ok(Self { from: form.whole("from", 0)?, items: form.items("items")?, inserted })
    }

    /// How many there are at the start.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Whether records are inserted.
    pub fn grow(&self) -> bool {
        !matches!(self.inserted, Inserted::None)
    }

    /// How many are known to be there when the request starts.
    #[inline]
    pub fn there(&self, draw: &Draw) -> u64 {
        if self.grow() { self.items + draw.settled } else { self.items }
    }

    /// The number of a record by its place, the oldest first.
    #[inline]
    pub fn number(&self, place: u64) -> i64 {
        match &self.inserted {
            Inserted::By(_, counter) if place >= self.items => counter.number(place - self.items),
            _ => self.from.wrapping_add_unsigned(place),
        }
    }

    /// The number of a record by its place among all that there will ever be, if it is known to be there.
    #[inline]
    pub fn present(&self, place: u64, draw: &Draw) -> Option<i64> {
        (place < self.there(draw)).then(|| self.number(place))
    }
}
