//! Counters that a workload's variables and operations depend on, and their start values.

use serde_json::Value;

use super::counter::{Counter, Inserted, Origin, Records};
use super::whole::Whole;
use super::{Kind, VariableId, Variables};
use crate::plan::PlanError;
use crate::workload::variables::template::names;

/// Counters that an operation's requests use and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The counter from which each request takes the next number.
    pub uses: Option<VariableId>,
    /// The counter that tells which inserted records exist.
    pub reads: Option<VariableId>,
}

impl Variables {
    /// Sets the start values of counters, which depend on `origin` if they are `fresh`.
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

    /// Resolves the counters that distributions name. Refuses an unknown counter, and a `several` list of values of a
    /// counter.
    pub(super) fn bind_counters(&mut self) -> Result<(), PlanError> {
        for index in 0..self.entries.len() {
            let name = self.entries[index].name.clone();
            let within = |error: PlanError| error.within(format_args!("variable \"{name}\""));
            let Kind::Whole(whole) = &self.entries[index].kind else { continue };
            let Some(Records { inserted: Inserted::Named(other), .. }) = whole.records() else { continue };
            let id = self.find(other).map_err(within)?;
            let Some(counter) = counter(&self.entries[id.0].kind) else {
                return Err(within(PlanError::new(format!(
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
                return Err(PlanError::new(cause).within(format_args!("variable \"{}\"", entry.name)));
            }
        }
        Ok(())
    }

    /// Returns the counters of an operation, from the variables in its text. Fails if it uses, or reads, more
    /// than one.
    pub fn counted(&self, form: &Value) -> Result<Counted, PlanError> {
        let mut named = Vec::new();
        self.named(form, &mut named);
        let (mut uses, mut reads) = (Vec::new(), Vec::new());
        named.into_iter().for_each(|id| self.counters_of(id, &mut uses, &mut reads));
        let only = |counters: Vec<VariableId>| match counters.iter().find(|counter| **counter != counters[0]) {
            Some(other) => {
                let (one, two) = (self.name(counters[0]), self.name(*other));
                Err(PlanError::new(format!("it depends on two counters, {one:?} and {two:?}: one is possible")))
            }
            None => Ok(counters.first().copied()),
        };
        Ok(Counted { uses: only(uses)?, reads: only(reads)? })
    }

    /// Adds the counters that a variable depends on: to `uses` if its values contain their numbers, to `reads` if it draws
    /// from their records.
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

    /// Adds the known variables in all texts and keys of a JSON value to `out`, as often as they appear.
    pub(super) fn named(&self, form: &Value, out: &mut Vec<VariableId>) {
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

/// Returns the counter of a variable; `None` if it is another kind of variable.
fn counter(kind: &Kind) -> Option<Counter> {
    if let Kind::Whole(Whole::Counter(counter)) = kind { Some(*counter) } else { None }
}
