//! State shared by all workers of a phase, and the result of a worker.

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
use crate::reactor::Timestamping;
use crate::recording::latest_answers::Kept;
use crate::recording::second::State;
use crate::recording::stream_end::StreamEnd;

/// State shared by all workers of a phase: read-only, except for flags and counters.
pub struct Phase<D: Driver> {
    /// The plan as it was received.
    pub plan: Plan,
    /// The core of each worker; empty unless the plan says `spin`.
    pub cores: Vec<usize>,
    /// The protocol.
    pub driver: D,
    /// Variables and corpora of the operations.
    pub context: Context,
    /// The iterations of each stream.
    pub stream_plans: Vec<StreamPlan<D>>,
    /// The rate or client count of each stream over time.
    pub profiles: Vec<Profile>,
    /// The number of iterations of each stream; `None` if unlimited.
    pub limits: Vec<Option<u64>>,
    /// Counters of this process.
    pub counters: Vec<Counter>,
    /// The simulated clock of each stream that has one.
    pub simulated_clocks: Vec<Option<SimulatedClock>>,
    /// The source of each stream that has one.
    pub sources: Vec<Option<Arc<Source>>>,
    /// Latest answers by operation, if requested.
    pub answers: BTreeMap<String, Arc<Kept>>,
    /// Set by the caller to end the phase now.
    pub stop: AtomicBool,
    /// The generator's own error, if it failed.
    pub failure: OnceLock<String>,
    /// Whether the set of active clients is frozen.
    pub held: AtomicBool,
    /// Whether other ranks take part. Then rank 0 combines the state of all ranks.
    pub together: bool,
    /// Number of workers still active in each stream.
    pub going: Vec<AtomicU64>,
    /// End of the warm-up that the caller chose, after the phase's start.
    pub measured_from: OnceLock<Duration>,
    /// When a stream's end or the caller ended the phase; may be in the future.
    pub ended: OnceLock<Instant>,
    /// Set by the caller to close all sources: queued events are sent, then the phase ends.
    pub closing: AtomicBool,
    /// Keeps the kernel's timestamps on, if the plan asks for them.
    pub timestamping: Option<Timestamping>,
}

impl<D: Driver> Phase<D> {
    /// Ends the phase at once with a failure of the generator, whose load would otherwise change unnoticed.
    /// Keeps the first message only.
    pub fn fail(&self, message: String) {
        let _ = self.failure.set(message);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records that a worker has finished its part of stream number `stream`. After the last worker, finishes the
    /// stream's visibility probes. Ends the phase if this stream ends it. With a single rank, also ends it if all
    /// sources were closed and their events are sent.
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

    /// Closes all sources: their queued events are sent, then the phase ends, including its other streams.
    /// Does not wait. With several ranks, the phase does not end by itself.
    pub fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.sources.iter().flatten().for_each(|source| source.queue.close_by_itself());
        self.end_if_closed();
    }

    /// Ends the phase if its sources were closed and all of their events are sent. Does nothing with several ranks.
    fn end_if_closed(&self) {
        let mut streams = self.sources.iter().zip(&self.going);
        let mut all_is_sent = || streams.all(|(source, going)| source.is_none() || going.load(Ordering::SeqCst) == 0);
        if !self.together && self.closing.load(Ordering::SeqCst) && all_is_sent() {
            self.end();
        }
    }

    /// Returns the end of the warm-up, after the phase's start.
    pub fn warmup(&self) -> Duration {
        self.measured_from.get().copied().unwrap_or(self.plan.warmup)
    }

    /// Returns whether the plan is `adjustable`, or a stream ends the phase (`ends_with`). Otherwise, only a closed
    /// phase, a condition of the plan or a failure ends it before its planned end.
    pub fn may_end_early(&self) -> bool {
        self.plan.adjustable || !self.plan.ends_with.is_empty()
    }

    /// Sets the end of the warm-up (`measured_from`, at most the planned one) and of the window (`until`).
    /// Both are in whole seconds after `start`, the phase's start. `None` and a time that is already set change
    /// nothing. Fails if the plan does not allow it, or if the time has passed.
    pub fn adjust(&self, start: Instant, measured_from: Option<u64>, until: Option<u64>) -> Result<(), String> {
        if !self.plan.adjustable {
            return Err("the plan does not allow another window: set \"adjustable\"".into());
        }
        let now = Instant::now();
        for second in [measured_from, until].into_iter().flatten() {
            if start + Duration::from_secs(second) <= now {
                return Err(format!("second {second} of the phase has begun already"));
            }
        }
        if let Some(from) = measured_from {
            let _ = self.measured_from.set(Duration::from_secs(from).min(self.plan.warmup));
        }
        if let Some(until) = until {
            let _ = self.ended.set(start + Duration::from_secs(until));
        }
        Ok(())
    }

    /// Ends the phase now: requests in flight may finish, no others are sent. Does nothing if the end of the phase is
    /// already set.
    pub fn end(&self) {
        let _ = self.ended.set(Instant::now());
    }

    /// Opens the ports of sources that wait for a first line, and waits until these lines begin to arrive. Fails
    /// if a port cannot be opened, or if a line does not arrive in time.
    pub fn await_first(&self) -> Result<(), PlanError> {
        self.sources.iter().flatten().try_for_each(|source| source.await_first())
    }

    /// Returns the name of each operation with a new latest answer, and that answer, in order of name.
    /// Each answer is returned once.
    pub fn take_answers(&self) -> Vec<(String, Vec<u8>)> {
        self.answers.iter().filter_map(|(name, kept)| Some((name.clone(), kept.take()?))).collect()
    }

    /// Returns the statistics of its sources, by name; empty without sources.
    pub fn stats(&self) -> BTreeMap<String, SourceStats> {
        self.sources.iter().flatten().map(|source| source.stats()).collect()
    }

    /// Returns the progress of this process: whether each stream is over, and its counters and simulated clocks.
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

/// Result of a worker, apart from its recordings.
#[derive(Clone, Debug, Default)]
pub struct Leftover {
    /// Requests in flight when the phase ended: slot, and time since they were scheduled.
    pub in_flight: Vec<(usize, Duration)>,
    /// How its part of each stream ended.
    pub streams: Vec<StreamEnd>,
    /// Start of the worker, after the phase's start.
    pub began: Duration,
    /// End of the worker, after the phase's start.
    pub ended: Duration,
}
