//! Iterations of a stream: its operations, their order and think times.

use std::sync::Arc;

use crate::client::first_executions::FirstExecutions;
use crate::driver::Driver;
use crate::pacing::schedule::salt;
use crate::plan::{Think, Tracing, Visible};
use crate::recording::latest_answers::Kept;
use crate::util::draw::Draw;
use crate::util::trace::Trace;
use crate::workload::journey::Journey;

/// A mapped operation of a stream.
pub struct Choice<D: Driver> {
    /// Its index among the choices of its stream.
    pub number: usize,
    /// The mapped operation.
    pub operation: D::Operation,
    /// Upper end of its range in the mix. A draw picks the first choice with a higher bound.
    pub below: f64,
    /// Its index in the recorder.
    pub slot: usize,
    /// The counter that its requests advance, as an index into
    /// [`Phase::counters`](crate::client::phase::Phase::counters). Each request takes the next number.
    pub uses: Option<usize>,
    /// The counter that limits the numbers its requests draw, as an index into
    /// [`Phase::counters`](crate::client::phase::Phase::counters).
    pub reads: Option<usize>,
    /// Settings of a request that repeats until a write is visible.
    pub visible: Option<Visible>,
    /// Storage for its latest answer, if requested.
    pub kept: Option<Arc<Kept>>,
    /// Additional parts recorded for its executions.
    pub first_executions: FirstExecutions,
    /// Captured variables used in its requests: slot and name.
    pub needs: Vec<(usize, String)>,
    /// Sampling for traces, if its requests can carry a trace context.
    pub tracing: Option<Tracing>,
}

impl<D: Driver> Choice<D> {
    /// Returns the number of the run for the trace of request `draw`; `None` if it is not sampled. Depends only on the
    /// request's key.
    #[inline]
    pub fn traced(&self, draw: &Draw) -> Option<u64> {
        self.tracing.filter(|tracing| draw.unit(salt::TRACE) < tracing.share).map(|tracing| tracing.run)
    }

    /// Returns the name of the first captured variable without a value; `None` if all have one. `knows(slot)`: whether
    /// the variable in this slot has a value.
    pub fn lacks(&self, mut knows: impl FnMut(usize) -> bool) -> Option<&str> {
        self.needs.iter().find(|(slot, _)| !knows(*slot)).map(|(_, name)| name.as_str())
    }
}

/// Returns the trace context of attempt number `attempt` of a request that [`Choice::traced`] sampled for `run`.
pub fn trace(draw: &Draw, run: u64, attempt: u32) -> Trace {
    draw.trace_context(salt::TRACE + 1, run, attempt)
}

/// Plan of a stream's iterations: each is one request drawn from a mix, a journey of several requests, or a group of
/// requests that start together.
pub struct StreamPlan<D: Driver> {
    /// The mix's operations, the journey's steps in order, or the requests of a group.
    pub choices: Vec<Choice<D>>,
    /// The think time after each step of a journey, 0 for each request of a group; empty for a mix.
    pub thinks: Vec<Think>,
    /// Whether an iteration is a group: its steps have the same due time, and a client each.
    pub together: bool,
    /// Groups of a mix by counter; operations without a counter form the last group. Empty if all operations
    /// use the same counter, or for a journey.
    pub groups: Vec<Group>,
    /// Choice indices of a permuted mix, each repeated by its weight. Empty for other streams.
    pub permuted_mix: Vec<usize>,
    /// Choice index of each kind of event, in the order of [`Batch::kinds`](crate::workload::event::Batch::kinds).
    /// Empty if one operation ingests all kinds.
    pub routes: Vec<usize>,
    /// The journey of users, with branches.
    pub journey: Option<Journey>,
}

/// Operations of a mix that use the same counter, or none.
pub struct Group {
    /// The counter, as in [`Choice::uses`].
    pub uses: Option<usize>,
    /// Their share of the mix.
    pub share: f64,
    /// Indices of its choices, each with the upper end of its range within the group.
    pub choices: Vec<(f64, usize)>,
}

impl<D: Driver> StreamPlan<D> {
    /// Creates the plan of a mix (`thinks` is empty), a journey (`thinks`: of each step) or a group (`together`).
    /// A group ignores `thinks`. Computes the groups of a mix; the permuted mix, routes and journey are empty.
    pub fn new(choices: Vec<Choice<D>>, thinks: Vec<Think>, together: bool) -> Self {
        let thinks = if together { vec![Think::default(); choices.len()] } else { thinks };
        let (groups, permuted_mix, routes) = (Vec::new(), Vec::new(), Vec::new());
        let mut stream_plan = Self { choices, thinks, together, groups, permuted_mix, routes, journey: None };
        let counters = stream_plan.counters();
        let alike = stream_plan.choices.iter().all(|choice| choice.uses == stream_plan.choices[0].uses);
        if stream_plan.thinks.is_empty() && !alike {
            let groups = counters.into_iter().map(Some).chain([None]).map(|uses| stream_plan.group(uses));
            stream_plan.groups = groups.collect();
        }
        stream_plan
    }

    /// Returns the choices that use counter `uses` (`None`: no counter) as a group. The bounds of their ranges are
    /// scaled to end at 1.
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

    /// Returns the index of the choice that ingests events of kind number `kind`; 0 without routes.
    pub fn route(&self, kind: usize) -> usize {
        self.routes.get(kind).copied().unwrap_or(0)
    }

    /// Returns the number of requests per iteration: the steps of a journey, the requests of a group, otherwise 1.
    pub fn steps(&self) -> u64 {
        self.thinks.len().max(1) as u64
    }

    /// Returns the counter of each choice that uses one; counters may repeat.
    pub fn uses(&self) -> impl Iterator<Item = usize> {
        self.choices.iter().filter_map(|choice| choice.uses)
    }

    /// Returns the index of each counter that the stream uses, once, in the order of their groups.
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
