//! What a stream does in one iteration: which operations, in which order, with which think times.

use std::sync::Arc;

use crate::client::first_executions::FirstExecutions;
use crate::driver::Driver;
use crate::plan::{Think, Visible};
use crate::recording::latest_answers::Kept;
use crate::workload::journey::Journey;

/// A mapped operation of a stream.
pub struct Choice<D: Driver> {
    /// Its place among the choices of its stream.
    pub number: usize,
    /// Ready to be executed.
    pub operation: D::Operation,
    /// Upper end of its range in the mix: it is picked when the draw is below this and not below the previous choice's.
    pub below: f64,
    /// Its place in the recorder.
    pub slot: usize,
    /// The counter that its requests use, as an index into [`Phase::counters`](crate::client::phase::Phase::counters):
    /// each takes the next number.
    pub uses: Option<usize>,
    /// The counter whose numbers its requests choose from, as an index into
    /// [`Phase::counters`](crate::client::phase::Phase::counters).
    pub reads: Option<usize>,
    /// Whether it looks until what was written is seen.
    pub visible: Option<Visible>,
    /// Where its newest answer is kept, if that is wanted.
    pub kept: Option<Arc<Kept>>,
    /// What is told apart of its executions.
    pub first_executions: FirstExecutions,
    /// The captured variables that its requests carry: their slots and their names.
    pub needs: Vec<(usize, String)>,
}

impl<D: Driver> Choice<D> {
    /// The name of a value that its requests carry and that nobody knows.
    pub fn lacks(&self, mut knows: impl FnMut(usize) -> bool) -> Option<&str> {
        self.needs.iter().find(|(slot, _)| !knows(*slot)).map(|(_, name)| name.as_str())
    }
}

/// What a stream does in one iteration: a request picked from a mix, or a journey of several requests.
pub struct StreamPlan<D: Driver> {
    /// The mix's operations, or the journey's steps in order.
    pub choices: Vec<Choice<D>>,
    /// The think time after each step of a journey; empty for a mix.
    pub thinks: Vec<Think>,
    /// Of a mix whose operations do not all use the same counter: those that use the same one, and last those that use
    /// none. Empty otherwise.
    pub groups: Vec<Group>,
    /// Of a mix whose operations alternate: their places, each as often as it weighs. Empty otherwise.
    pub permuted_mix: Vec<usize>,
    /// What users do, who go their own ways through the choices.
    pub journey: Option<Journey>,
}

/// Operations of a mix that use the same counter, or none.
pub struct Group {
    /// The counter, as in [`Choice::uses`].
    pub uses: Option<usize>,
    /// Their share of the mix.
    pub share: f64,
    /// Their places in it, each with the upper end of its range within the group.
    pub choices: Vec<(f64, usize)>,
}

impl<D: Driver> StreamPlan<D> {
    /// A mix, or a journey with its think times.
    pub fn new(choices: Vec<Choice<D>>, thinks: Vec<Think>) -> Self {
        let mut stream_plan = Self { choices, thinks, groups: Vec::new(), permuted_mix: Vec::new(), journey: None };
        let counters = stream_plan.counters();
        let alike = stream_plan.choices.iter().all(|choice| choice.uses == stream_plan.choices[0].uses);
        if stream_plan.thinks.is_empty() && !alike {
            let groups = counters.into_iter().map(Some).chain([None]).map(|uses| stream_plan.group(uses));
            stream_plan.groups = groups.collect();
        }
        stream_plan
    }

    fn group(&self, uses: Option<usize>) -> Group {
        let mut before = 0.0;
        let (mut share, mut choices) = (0.0, Vec::new());
        for (place, choice) in self.choices.iter().enumerate() {
            if choice.uses == uses {
                share += choice.below - before;
                choices.push((share, place));
            }
            before = choice.below;
        }
        choices.iter_mut().for_each(|(below, _)| *below /= share);
        Group { uses, share, choices }
    }

    /// Requests of one iteration.
    pub fn steps(&self) -> u64 {
        self.thinks.len().max(1) as u64
    }

    /// The counters that its requests use, once for each choice.
    pub fn uses(&self) -> impl Iterator<Item = usize> {
        self.choices.iter().filter_map(|choice| choice.uses)
    }

    /// The counters that its requests use, in the order of their groups.
    pub fn counters(&self) -> Vec<usize> {
        let mut counters = Vec::new();
        for counter in self.uses() {
            if !counters.contains(&counter) {
                counters.push(counter);
            }
        }
        counters
    }
}
