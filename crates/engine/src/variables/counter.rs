//! Counters, which number the requests that use them, and records, which laws choose from: those that are there when a
//! phase starts, and those whose inserts a counter numbers.

use serde_json::Value;

use super::VariableId;
use super::form::Form;
use crate::draw::{Draw, mix};
use crate::plan::PlanError;

/// A `fresh` counter begins up to this many numbers after its `from`.
const FRESH: u64 = 1 << 49;

/// What a counter's numbers depend on, besides the requests.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The run's seed.
    pub seed: u64,
    /// The hash of the phase's name.
    pub phase: u64,
    /// This process among `ranks`: process r of R has the numbers r, r + R, r + 2R, ...
    pub rank: u64,
    /// See `rank`.
    pub ranks: u64,
}

/// Numbers the requests that use it, from `start`.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    from: i64,
    /// It begins again after this many numbers.
    items: u64,
    fresh: bool,
    start: i64,
    rank: u64,
    ranks: u64,
}

impl Counter {
    /// `{from: 0, items: none, fresh: false}`.
    pub fn new(argument: &Value) -> Result<Self, PlanError> {
        let form = Form::new("counter", argument, &["from", "items", "fresh"])?;
        let items = if form.get("items").is_some() { form.items("items")? } else { u64::MAX };
        let from = form.whole("from", 0)?;
        Ok(Self { from, items, fresh: form.flag("fresh")?, start: from, rank: 0, ranks: 1 })
    }

    /// The number that the process's `nth` request has that uses the counter, from 0.
    #[inline]
    pub fn number(&self, nth: u64) -> i64 {
        self.at(nth.wrapping_mul(self.ranks).wrapping_add(self.rank))
    }

    /// The number at a place among those of all processes.
    fn at(&self, place: u64) -> i64 {
        self.start.wrapping_add_unsigned(place % self.items)
    }

    /// Whether the number at a place among those of all processes is this process's, and among its first `settled`.
    fn is_settled(&self, place: u64, settled: u64) -> bool {
        place % self.ranks == self.rank && place / self.ranks < settled
    }

    pub fn origin(&mut self, origin: Origin) {
        let shift = if self.fresh { mix(origin.seed ^ mix(origin.phase)) % FRESH } else { 0 };
        *self = Self { start: self.from.wrapping_add_unsigned(shift), rank: origin.rank, ranks: origin.ranks, ..*self };
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

    /// How many this process knows to be there when the request starts.
    #[inline]
    pub fn there(&self, draw: &Draw) -> u64 {
        if self.grow() { self.items + draw.settled } else { self.items }
    }

    /// The number of a record by its place among those that this process knows to be there, the oldest first.
    #[inline]
    pub fn number(&self, place: u64) -> i64 {
        match &self.inserted {
            Inserted::By(_, counter) if place >= self.items => counter.number(place - self.items),
            _ => self.from.wrapping_add_unsigned(place),
        }
    }

    /// The number of a record by its place among all that there will ever be, if this process knows that it is there.
    #[inline]
    pub fn present(&self, place: u64, draw: &Draw) -> Option<i64> {
        match &self.inserted {
            _ if place < self.items => Some(self.from.wrapping_add_unsigned(place)),
            Inserted::By(_, counter) => {
                let place = place - self.items;
                counter.is_settled(place, draw.settled).then(|| counter.at(place))
            }
            _ => None,
        }
    }
}
