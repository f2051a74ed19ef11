//! What all workers of a phase share, mapped and checked, and what a worker returns when it ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::client::counters::Counter;
use crate::client::stream_plan::StreamPlan;
use crate::driver::{Context, Driver};
use crate::ingest::{Source, SourceStats};
use crate::pacing::profile::Profile;
use crate::pacing::simulated_clock::{ClockState, SimulatedClock};
use crate::plan::{Plan, PlanError};
use crate::recording::latest_answers::Kept;
use crate::recording::second::State;
use crate::recording::stream_end::StreamEnd;

/// What all workers of a phase share, read-only but for the flags and the counters.
pub struct Phase<D: Driver> {
    /// The plan as it was received.
    pub plan: Plan,
    /// The protocol.
    pub driver: D,
    /// What operations refer to.
    pub context: Context,
    /// Of each stream.
    pub stream_plans: Vec<StreamPlan<D>>,
    /// The level of each stream's pacing.
    pub profiles: Vec<Profile>,
    /// How many iterations each stream has; `None` for a stream without such an end.
    pub limits: Vec<Option<u64>>,
    /// How far the counters that operations use have come in this process.
    pub counters: Vec<Counter>,
    /// The simulated clock of each stream whose users share one.
    pub simulated_clocks: Vec<Option<SimulatedClock>>,
    /// The source of each stream that has one.
    pub sources: Vec<Option<Arc<Source>>>,
    /// The newest answers that are kept, by operation.
    pub answers: BTreeMap<String, Arc<Kept>>,
    /// Set from outside: end now.
    pub stop: AtomicBool,
    /// Why the generator itself failed, if it did.
    pub failure: OnceLock<String>,
    /// Whether the clients that are present stay, and no others come.
    pub held: AtomicBool,
    /// Whether other ranks have parts of it, too, with which this one is told what becomes of the whole.
    pub together: bool,
    /// How many workers still have a part of each stream.
    pub going: Vec<AtomicU64>,
    /// When the phase ended, where the end of a stream ends it.
    pub ended: OnceLock<Instant>,
    /// Set from outside: nothing more is taken from sources, and the phase ends with what they gave.
    pub closing: AtomicBool,
}

impl<D: Driver> Phase<D> {
    /// Ends the phase now because a part of the generator failed: from here on it would measure a different load. The
    /// first message is kept.
    pub fn fail(&self, message: String) {
        let _ = self.failure.set(message);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// A worker has nothing more to do for a stream. If no other has either, and the stream ends the phase, it ends now,
    /// unless other ranks have to be asked.
    pub fn part_ended(&self, stream: usize) {
        let was_last = self.going[stream].fetch_sub(1, Ordering::SeqCst) == 1;
        if let (true, Some(probes)) =
            (was_last, self.sources[stream].as_ref().and_then(|source| source.probes.as_ref()))
        {
            probes.finish();
        }
        if was_last && !self.together && self.plan.ends_with.contains(&self.plan.streams[stream].name) {
            self.end();
        }
        self.end_if_closed();
    }

    /// Takes nothing more from sources. What they gave is still sent, and then the phase ends, also for its other streams.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.sources.iter().flatten().for_each(|source| source.queue.close_by_itself());
        self.end_if_closed();
    }

    fn end_if_closed(&self) {
        let mut streams = self.sources.iter().zip(&self.going);
        let mut all_is_sent = || streams.all(|(source, going)| source.is_none() || going.load(Ordering::SeqCst) == 0);
        if !self.together && self.closing.load(Ordering::SeqCst) && all_is_sent() {
            self.end();
        }
    }

    /// A stream has ended the phase: what is in flight is waited for, and nothing else is sent.
    pub fn end(&self) {
        let _ = self.ended.set(Instant::now());
    }

    /// Opens the ports whose first lines are waited for, and returns when these begin to come.
    pub fn await_first(&self) -> Result<(), PlanError> {
        self.sources.iter().flatten().try_for_each(|source| source.await_first())
    }

    /// The newest answers that were not taken yet, by operation.
    pub fn take_answers(&self) -> Vec<(String, Vec<u8>)> {
        self.answers.iter().filter_map(|(name, kept)| Some((name.clone(), kept.take()?))).collect()
    }

    /// How its sources stand, by their names.
    pub fn stats(&self) -> BTreeMap<String, SourceStats> {
        self.sources.iter().flatten().map(|source| source.stats()).collect()
    }

    /// Where streams and counters of this process stand.
    pub fn state(&self) -> State {
        State {
            over: self.going.iter().map(|going| going.load(Ordering::Acquire) == 0).collect(),
            counters: self.counters.iter().map(Counter::state).collect(),
            clocks: self
                .simulated_clocks
                .iter()
                .map(|clock| clock.as_ref().map_or_else(ClockState::default, SimulatedClock::standing))
                .collect(),
        }
    }
}

/// What a worker returns besides its recordings.
#[derive(Clone, Debug, Default)]
pub struct Leftover {
    /// Requests in flight when the phase ended: their slot, and how long before they were scheduled.
    pub in_flight: Vec<(usize, Duration)>,
    /// How its part of each stream ended.
    pub streams: Vec<StreamEnd>,
    /// How long after the phase's start the worker began.
    pub began: Duration,
    /// When the worker ended, after the phase's start.
    pub ended: Duration,
}
