//! Inputs of an operation's requests besides the draw: captured values, or a number among all of a stream's
//! requests.

use serde_json::Value;

use super::whole::Whole;
use super::{Kind, Per, VariableId, Variables};
use crate::plan::PlanError;

impl Variables {
    /// Returns the slot and name of each captured variable that an operation's requests depend on, each once.
    pub fn needs(&self, form: &Value) -> Vec<(usize, String)> {
        let mut slots = Vec::new();
        self.rests_on(form, &mut |id| {
            if let Kind::Captured(slot) = self.entries[id.0].kind
                && !slots.iter().any(|(known, _)| *known == slot)
            {
                slots.push((slot, self.name(id).to_owned()));
            }
        });
        slots
    }

    /// Returns the variables in an operation's text, each once, in the order of their definition.
    /// Leaves out the variables that they derive from.
    pub fn named_in(&self, form: &Value) -> Vec<VariableId> {
        let mut named = Vec::new();
        self.named(form, &mut named);
        named.sort_by_key(|id| id.0);
        named.dedup();
        named
    }

    /// Returns the name of a variable that an operation depends on and that counts the requests of a stream; `None`
    /// without one. Users with branching journeys cannot use it.
    pub fn counts_requests(&self, form: &Value) -> Option<&str> {
        let mut counting = None;
        self.rests_on(form, &mut |id| {
            let variable = &self.entries[id.0];
            let counts = match &variable.kind {
                Kind::Whole(Whole::Counter(_) | Whole::Sequential { .. }) => true,
                Kind::Whole(Whole::Latest { growth, .. }) => *growth > 0.0,
                Kind::Listed(listed) => listed.is_sequential(),
                Kind::Documents(documents) => documents.is_sequential(),
                _ => false,
            };
            if counts && variable.per == Per::Request {
                counting = Some(id);
            }
        });
        counting.map(|id| self.name(id))
    }

    /// Returns the loop counters that an operation's requests depend on; one may repeat.
    /// Each is its index in [`Draw::passes`](crate::util::draw::Draw::passes) and its name.
    pub fn loops(&self, form: &Value) -> Vec<(usize, String)> {
        let mut loops = Vec::new();
        self.rests_on(form, &mut |id| {
            if let Kind::Loop(place, _) = self.entries[id.0].kind {
                loops.push((place, self.name(id).to_owned()));
            }
        });
        loops
    }

    /// Returns the index in [`Draw::passes`](crate::util::draw::Draw::passes) of variable `name`. Refuses other
    /// variables than loop counters.
    pub fn loop_slot(&self, name: &str) -> Result<usize, PlanError> {
        match self.entries[self.find(name)?.0].kind {
            Kind::Loop(place, _) => Ok(place),
            _ => Err(PlanError::new(format!("variable {name:?} counts no loop: define it as {{loop: {{from: 0}}}}"))),
        }
    }

    /// Calls `visit` with each variable in the text of a form, and with the variables that it derives from; one that
    /// is named several times is visited several times.
    fn rests_on(&self, form: &Value, visit: &mut impl FnMut(VariableId)) {
        let mut named = Vec::new();
        self.named(form, &mut named);
        while let Some(id) = named.pop() {
            visit(id);
            if let Kind::Derived(derived) = &self.entries[id.0].kind {
                named.extend(derived.of());
            }
        }
    }
}
