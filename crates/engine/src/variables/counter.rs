//! Counters, which number the requests that use them, and records, which laws choose from: those that are there when a
//! phase starts, and those whose inserts a counter numbers.

use serde_json::Value;

use super::form::Form;
use super::whole::Whole;
use super::{Kind, VariableId, Variables};
use crate::draw::{Draw, mix};
use crate::plan::PlanError;
use crate::template::names;

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

    fn origin(&mut self, origin: Origin) {
        let shift = if self.fresh { mix(origin.seed ^ mix(origin.phase)) % FRESH } else { 0 };
        *self = Self { start: self.from.wrapping_add_unsigned(shift), rank: origin.rank, ranks: origin.ranks, ..*self };
    }
}

/// Records, by their numbers: `items` from `from` on, and behind them those that the load inserts, the newest last.
#[derive(Clone, Debug)]
pub struct Records {
    from: i64,
    items: u64,
    inserted: Inserted,
}

#[derive(Clone, Debug)]
enum Inserted {
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

/// Which counters the requests of an operation use and choose from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The counter of which each request takes the next number.
    pub uses: Option<VariableId>,
    /// The counter that tells which of the records that it numbers are there.
    pub reads: Option<VariableId>,
}

impl Variables {
    /// Sets where counters begin, and which of their numbers are this process's.
    pub fn count_from(&mut self, origin: Origin) {
        for entry in &mut self.entries {
            if let Kind::Whole(Whole::Counter(counter)) = &mut entry.kind {
                counter.origin(origin);
            }
        }
        let counters: Vec<Option<Counter>> = self.entries.iter().map(|entry| counter(&entry.kind)).collect();
        for entry in &mut self.entries {
            if let Kind::Whole(whole) = &mut entry.kind
                && let Some(Records { inserted: Inserted::By(id, bound), .. }) = whole.records_mut()
                && let Some(counter) = counters[id.0]
            {
                *bound = counter;
            }
        }
    }

    /// Finds the counters that laws name, and refuses lists of what has one value for each request.
    pub(super) fn bind_counters(&mut self) -> Result<(), PlanError> {
        for index in 0..self.entries.len() {
            let name = self.entries[index].name.clone();
            let within = |error: PlanError| error.within(format_args!("variable \"{name}\""));
            let Kind::Whole(whole) = &self.entries[index].kind else { continue };
            let Some(Records { inserted: Inserted::Named(other), .. }) = whole.records() else { continue };
            let id = self.find(other).map_err(within)?;
            let Some(counter) = counter(&self.entries[id.0].kind) else {
                return Err(within(PlanError(format!(
                    "{other:?} does not number inserted records: it is not a counter"
                ))));
            };
            if let Kind::Whole(whole) = &mut self.entries[index].kind
                && let Some(records) = whole.records_mut()
            {
                records.inserted = Inserted::By(id, counter);
            }
        }
        for entry in &self.entries {
            let (mut uses, mut reads) = (Vec::new(), Vec::new());
            if let Kind::Derived(derived) = &entry.kind
                && let Some(of) = derived.repeats()
            {
                self.counters_of(of, &mut uses, &mut reads);
            }
            if !uses.is_empty() {
                let cause = "it lists values of a counter, which has one value for each request";
                return Err(PlanError(cause.into()).within(format_args!("variable \"{}\"", entry.name)));
            }
        }
        Ok(())
    }

    /// The counters of an operation, by the names in its texts. An error if it uses, or chooses from, more than one.
    pub fn counted(&self, form: &Value) -> Result<Counted, PlanError> {
        let mut named = Vec::new();
        self.named(form, &mut named);
        let (mut uses, mut reads) = (Vec::new(), Vec::new());
        named.into_iter().for_each(|id| self.counters_of(id, &mut uses, &mut reads));
        let only = |counters: Vec<VariableId>| match counters.iter().find(|counter| **counter != counters[0]) {
            Some(other) => {
                let (one, two) = (self.name(counters[0]), self.name(*other));
                Err(PlanError(format!("it depends on two counters, {one:?} and {two:?}: one is possible")))
            }
            None => Ok(counters.first().copied()),
        };
        Ok(Counted { uses: only(uses)?, reads: only(reads)? })
    }

    /// Collects the counters whose numbers are in a variable's values, and those that its values are chosen from.
    fn counters_of(&self, id: VariableId, uses: &mut Vec<VariableId>, reads: &mut Vec<VariableId>) {
        match &self.entries[id.0].kind {
            Kind::Whole(Whole::Counter(_)) => uses.push(id),
            Kind::Whole(whole) => {
                if let Some(Records { inserted: Inserted::By(counter, _), .. }) = whole.records() {
                    reads.push(*counter);
                }
            }
            Kind::Derived(derived) => {
                derived.of().into_iter().for_each(|other| self.counters_of(other, uses, reads));
            }
            _ => {}
        }
    }

    /// The variables in the texts of a form.
    fn named(&self, form: &Value, out: &mut Vec<VariableId>) {
        match form {
            Value::String(text) => out.extend(names(text).into_iter().filter_map(|name| self.find(name).ok())),
            Value::Array(values) => values.iter().for_each(|value| self.named(value, out)),
            Value::Object(mapping) => {
                for (key, value) in mapping {
                    out.extend(names(key).into_iter().filter_map(|name| self.find(name).ok()));
                    self.named(value, out);
                }
            }
            _ => {}
        }
    }
}

fn counter(kind: &Kind) -> Option<Counter> {
    if let Kind::Whole(Whole::Counter(counter)) = kind { Some(*counter) } else { None }
}
