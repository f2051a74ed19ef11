//! Runs one phase: checks and maps the plan, starts workers and collector, and returns the outcome.

pub mod descriptors;
mod ending;
mod own_cores;
mod prepare;
mod sinks;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client;
use crate::client::phase::{Leftover, Phase};
use crate::client::stream_plan::{Choice, StreamPlan};
use crate::driver::{Driver, Exchange, Reply};
use crate::ingest;
use crate::ingest::{Source, SourceStats};
use crate::pacing::start_time::StartTime;
use crate::plan::{self, Pacing, Plan, PlanError, Stream};
use crate::ranks::RankRecorder;
use crate::ranks::directives::Directives;
use crate::recording::collector::Link;
use crate::recording::files::Files;
use crate::recording::measures::SharedMeasures;
use crate::recording::outcome::{Watch, describe, write};
use crate::recording::reconnects;
use crate::recording::recorder::{Interval, Recorder};
use crate::recording::slot::Slot;
use crate::recording::tally::{Progress, Shown, Tally, shown};
use crate::util::draw::Draw;
use crate::util::panics;
use ending::{Ended, finish};
use prepare::{prepare, runtime};
use sinks::{Ending, IntoFiles, IntoMemory, Seconds};

/// A running or finished phase.
pub struct Running {
    phase: Arc<dyn Control>,
    start_time: StartTime,
    progress: Shown,
    measures: SharedMeasures,
    seconds: Seconds,
    finished: Arc<(Mutex<bool>, Condvar)>,
    outcome: Mutex<Option<JoinHandle<Result<Value, String>>>>,
}

impl Running {
    /// Ends the phase now, without waiting for requests in flight; measurements so far are kept.
    pub fn stop(&self) {
        self.phase.stop();
    }

    /// Closes all sources: their queued events are sent, then the phase ends.
    pub fn close(&self) {
        self.phase.close();
    }

    /// Changes the target's hosts while the load runs. Fails if the driver does not support it.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.phase.set_hosts(hosts)
    }

    /// Freezes the set of active clients of closed streams, regardless of later stages of their number.
    pub fn hold(&self) {
        self.phase.hold();
    }

    /// Sets the end of the warm-up (`measured_from`) and of the measured window (`until`), s after the load's start.
    /// `None` and a time that is already set change nothing. Fails if one is not in the future, or if the plan does not
    /// allow it.
    pub fn adjust(&self, measured_from: Option<u64>, until: Option<u64>) -> Result<(), String> {
        self.phase.adjust(self.start_time.at, measured_from, until)
    }

    /// Applies rank 0's directives on this rank. Fails if they cannot be parsed.
    pub fn apply(&self, directives: &[u8]) -> Result<(), String> {
        Directives::from_bytes(directives).map(|directives| self.phase.apply(&directives))
    }

    /// Blocks up to `limit` for the end; returns whether the phase has ended.
    pub fn wait(&self, limit: Duration) -> bool {
        let (finished, finished_signal) = &*self.finished;
        let guard = finished.lock().expect("no thread panics while it holds the lock");
        *finished_signal
            .wait_timeout_while(guard, limit, |finished| !*finished)
            .expect("no thread panics while it holds the lock")
            .0
    }

    /// Returns the start time of the load.
    pub fn start_time(&self) -> &StartTime {
        &self.start_time
    }

    /// Removes and returns this rank's seconds recorded since the last call, serialized for rank 0. Empty for a phase
    /// that writes files.
    pub fn seconds(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.seconds.lock().expect("no thread panics while it holds the lock"))
    }

    /// Returns the progress, for display.
    pub fn progress(&self) -> Progress {
        Progress { sources: self.phase.stats(), ..shown(&self.progress) }
    }

    /// Returns the counts and times of this process for monitoring systems; they remain readable after the end.
    pub fn measures(&self) -> SharedMeasures {
        self.measures.clone()
    }

    /// Takes the latest answers not returned before: names of operations, in order, and their answers, JSON.
    pub fn answers(&self) -> Vec<(String, Vec<u8>)> {
        self.phase.answers()
    }

    /// Blocks until the end and returns the outcome: the content of `outcome.json`, or this rank's
    /// [`Part`](crate::recording::outcome::RankOutcome) of it. All threads of the phase have ended then. Fails if the
    /// records could not be written, or at a second call.
    pub fn outcome(&self) -> Result<Value, String> {
        let handle = self.outcome.lock().expect("no thread panics while it holds the lock").take();
        handle.ok_or("the outcome was taken already")?.join().map_err(|_| "the generator panicked".to_owned())?
    }
}

impl Drop for Running {
    /// Stops the load, which must not outlive its handle, and waits for its end.
    fn drop(&mut self) {
        self.phase.stop();
        if let Ok(Some(outcome)) = self.outcome.get_mut().map(Option::take) {
            let _ = outcome.join();
        }
    }
}

/// Operations on a running phase, independent of its driver.
trait Control: Send + Sync {
    /// Returns the statistics of the phase's sources, by name.
    fn stats(&self) -> BTreeMap<String, SourceStats>;
    /// Takes the latest answers not returned before: names of operations, and their answers.
    fn answers(&self) -> Vec<(String, Vec<u8>)>;
    /// Sets the stop flag, which ends the phase without waiting for requests in flight.
    fn stop(&self);
    /// Closes all sources: their queued events are sent, then the phase ends.
    fn close(&self);
    /// Freezes the set of active clients of closed streams, regardless of later stages of their number.
    fn hold(&self);
    /// Sets the end of the warm-up and of the window, in whole seconds after `start`; `None` leaves one unchanged.
    /// Fails if one is not in the future, or if the plan does not allow it.
    fn adjust(&self, start: Instant, measured_from: Option<u64>, until: Option<u64>) -> Result<(), String>;
    /// Applies rank 0's directives: settled counts, steps of simulated clocks, and the end of the phase.
    fn apply(&self, directives: &Directives);
    /// Changes the target's hosts while the load runs. Fails if the driver does not support it.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError>;
}

impl<D: Driver> Phase<D> {
    /// Chooses a core for each worker if the plan says `spin`. Refuses too few cores, and busy ones.
    fn choose_cores(&mut self) -> Result<(), PlanError> {
        if self.plan.spin {
            self.cores = own_cores::choose(self.plan.threads)?;
        }
        Ok(())
    }
}

impl<D: Driver> Control for Phase<D> {
    /// Returns the statistics of the phase's sources, by name.
    fn stats(&self) -> BTreeMap<String, SourceStats> {
        Self::stats(self)
    }

    /// Takes the latest answers not returned before: names of operations, and their answers.
    fn answers(&self) -> Vec<(String, Vec<u8>)> {
        self.take_answers()
    }

    /// Sets the stop flag, which ends the phase without waiting for requests in flight.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Closes all sources: their queued events are sent, then the phase ends.
    fn close(&self) {
        Self::close(self);
    }

    /// Freezes the set of active clients of closed streams, regardless of later stages of their number.
    fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Sets the end of the warm-up and of the window, in whole seconds after `start`; `None` leaves one unchanged.
    /// Fails if one is not in the future, or if the plan does not allow it.
    fn adjust(&self, start: Instant, measured_from: Option<u64>, until: Option<u64>) -> Result<(), String> {
        Self::adjust(self, start, measured_from, until)
    }

    /// Applies rank 0's directives: settled counts, steps of simulated clocks, and the end of the phase.
    fn apply(&self, directives: &Directives) {
        for (counter, settled) in self.counters.iter().zip(&directives.settled) {
            counter.tell(*settled);
        }
        for (simulated_clock, (number, to)) in self.simulated_clocks.iter().zip(&directives.clocks) {
            if let Some(simulated_clock) = simulated_clock {
                simulated_clock.apply(*number, *to);
            }
        }
        if directives.stop {
            self.stop();
        }
        if directives.over {
            self.end();
        }
    }

    /// Changes the target's hosts while the load runs. Fails if the driver does not support it.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.driver.set_hosts(hosts)
    }
}

/// Checks the plan and starts a phase that records into `folder`, which must exist. Reads corpora and waits for the
/// first line of sources that require it. Errors are returned before anything is sent. At the end the phase writes
/// `outcome.json`.
pub fn start<D: Driver>(plan: Plan, folder: &Path) -> Result<Running, PlanError> {
    let (mut phase, slots) = prepare::<D>(plan, false)?;
    phase.context.corpora.make_ready()?;
    phase.choose_cores()?;
    phase.await_first()?;
    let start_time = StartTime::new(&phase.plan, phase.plan.start)?;
    let progress = Shown::default();
    let files = Files::create(folder, &phase.plan, &slots, start_time.offset, start_time.began(), false)
        .map_err(|e| PlanError::machine(format!("{}: {e}", folder.display())))?;
    let tally = Tally::new(&phase.plan, slots.clone(), progress.clone());
    let (phase, folder) = (Arc::new(phase), folder.to_owned());
    let watch = Watch::new(&phase.plan);
    let sink = IntoFiles { phase: phase.clone(), start: start_time.at, files, tally, watch };
    launch(&phase, slots.clone(), start_time, sink, progress, Seconds::default(), move |phase, ended| {
        let part = ended.part(phase, &slots, 0);
        let hosts = phase.driver.hosts();
        let outcome = describe(&phase.plan, &slots, &ended.totals, &part, &start_time, &hosts, false);
        write(&folder.join("outcome.json"), &outcome).map(|()| outcome)
    })
}

/// A checked and mapped phase of one rank, ready to start at the agreed time.
pub trait Prepared: Send + Sync {
    /// Starts the load at `start`, seconds of this machine's CLOCK_MONOTONIC; by default at the plan's start time. The
    /// returned phase keeps its seconds in memory for rank 0. Fails if the time is out of range, a port cannot be
    /// opened or a thread cannot start.
    fn begin(self: Box<Self>, start: Option<f64>) -> Result<Running, PlanError>;

    /// Creates rank 0's record of the phase in `folder`. `start`: as for [`Prepared::begin`]. Fails if a file cannot
    /// be created.
    fn recorder(&self, folder: &Path, start: Option<f64>) -> Result<RankRecorder, PlanError>;
}

struct Ready<D: Driver> {
    phase: Phase<D>,
    slots: Vec<Slot>,
    fingerprint: u64,
}

/// Checks and maps the plan of one rank, reads its corpora and chooses its cores. Blocks until the first line if the
/// load starts with it. Refuses an invalid plan, and a target that refuses the driver.
pub fn prepare_rank<D: Driver>(plan: Plan) -> Result<Box<dyn Prepared>, PlanError> {
    // The run's start is a time of rank 0's clock, meaningless on another machine.
    let began = plan.began.filter(|_| plan.rank == 0);
    let (mut phase, slots) = prepare::<D>(Plan { began, ..plan }, true)?;
    phase.context.corpora.make_ready()?;
    phase.choose_cores()?;
    phase.await_first()?;
    let fingerprint = phase.plan.fingerprint();
    Ok(Box::new(Ready { phase, slots, fingerprint }))
}

impl<D: Driver> Prepared for Ready<D> {
    /// Starts the load at `start`, seconds of this machine's CLOCK_MONOTONIC; by default at the plan's start time. Its
    /// seconds stay in memory until they are fetched. Fails if the time is out of range, a port cannot be opened or a
    /// thread cannot start.
    fn begin(self: Box<Self>, start: Option<f64>) -> Result<Running, PlanError> {
        let Self { phase, slots, fingerprint } = *self;
        let start_time = StartTime::new(&phase.plan, start.or(phase.plan.start))?;
        let (progress, seconds) = (Shown::default(), Seconds::default());
        let tally = Tally::of_a_share(&phase.plan, slots.clone(), progress.clone());
        let (watch, phase) = (Watch::new(&phase.plan), Arc::new(phase));
        let sink = IntoMemory {
            phase: phase.clone(),
            start: start_time.at,
            seconds: seconds.clone(),
            fingerprint,
            tally,
            watch,
        };
        launch(&phase, slots.clone(), start_time, sink, progress, seconds, move |phase, ended| {
            serde_json::to_value(ended.part(phase, &slots, fingerprint)).map_err(|error| error.to_string())
        })
    }

    /// Creates rank 0's record of the phase in `folder`. `start`: start of the load, seconds of CLOCK_MONOTONIC. Fails
    /// if a file cannot be created.
    fn recorder(&self, folder: &Path, start: Option<f64>) -> Result<RankRecorder, PlanError> {
        RankRecorder::create(folder, &self.phase.plan, &self.slots, self.fingerprint, start)
    }
}

/// Starts the readers of sources, the collector and the workers. `sink`: receives each second. `tell`: builds the
/// outcome from the results. Fails if a port cannot be opened or a thread cannot start.
fn launch<D: Driver, S: Ending>(
    phase: &Arc<Phase<D>>,
    slots: Vec<Slot>,
    start_time: StartTime,
    sink: S,
    progress: Shown,
    seconds: Seconds,
    tell: impl FnOnce(&Phase<D>, Ended) -> Result<Value, String> + Send + 'static,
) -> Result<Running, PlanError> {
    let (hears, measures) = (phase.clone(), sink.measures());
    let fail: ingest::Fail = Arc::new(move |words| hears.fail(words));
    let reading = SourceGuard(phase.sources.iter().flatten().cloned().collect());
    reading.0.iter().try_for_each(|source| source.begin(start_time.at, &fail))?;
    let (mut links, mut ends) = (Vec::new(), Vec::new());
    for thread in 0..phase.plan.threads as usize {
        let (finished, intervals) = channel();
        let (recycle, empty) = channel();
        // Two intervals per worker: the worker fills one while the collector has the other.
        for _ in 0..2 {
            let _ = recycle.send(Interval::new(thread, slots.len()));
        }
        links.push(Link { intervals, empty: recycle });
        ends.push((finished, empty));
    }
    let (started_workers, workers) = channel();
    let finished = Arc::new((Mutex::new(false), Condvar::new()));
    let finished_signal = FinishedSignal(finished.clone());
    let (phase2, slots_len) = (phase.clone(), slots.len());
    let outcome = thread::Builder::new()
        .name("collector".into())
        .spawn(move || {
            let _bell = finished_signal;
            let ended = finish(&phase2, sink, links, &workers, start_time);
            drop(reading);
            ended.and_then(|ended| tell(&phase2, ended))
        })
        .map_err(no_thread)?;
    // From here on, dropping `running` stops all threads.
    let running = Running {
        phase: phase.clone(),
        start_time,
        progress,
        measures,
        seconds,
        finished,
        outcome: Mutex::new(Some(outcome)),
    };
    let spawned = (0..).zip(ends).try_for_each(|(thread, (finished, empty))| {
        let worker = spawn_worker(phase, thread, slots_len, start_time.at, finished, empty).map_err(no_thread)?;
        let _ = started_workers.send(worker);
        Ok(())
    });
    // The collector waits for workers until this channel closes.
    drop(started_workers);
    spawned.map(|()| running)
}

/// Ends the sources when dropped.
struct SourceGuard(Vec<Arc<Source>>);

impl Drop for SourceGuard {
    /// Ends the sources: stops reading and joins their reader threads.
    fn drop(&mut self) {
        self.0.iter().for_each(|source| source.end());
    }
}

/// Signals the end of a phase when dropped, also after a panic.
struct FinishedSignal(Arc<(Mutex<bool>, Condvar)>);

impl Drop for FinishedSignal {
    /// Marks the phase as finished, and wakes threads that wait for its end.
    fn drop(&mut self) {
        *self.0.0.lock().expect("no thread panics while it holds the lock") = true;
        self.0.1.notify_all();
    }
}

/// Converts the error of a thread that cannot start to an error of this machine.
fn no_thread(error: std::io::Error) -> PlanError {
    PlanError::machine(format!("cannot start a thread: {error}"))
}

/// Starts the thread of worker number `thread`, on its core if it has one. `slots`: number of recorded items.
/// `finished` and `empty`: as for [`Recorder::new`]. Its errors and panics stop the phase. Fails if the thread cannot
/// start.
fn spawn_worker<D: Driver>(
    phase: &Arc<Phase<D>>,
    thread: u64,
    slots: usize,
    start: Instant,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
) -> std::io::Result<JoinHandle<Leftover>> {
    let plan = &phase.plan;
    let samples = plan.samples;
    let phase = phase.clone();
    thread::Builder::new().name(format!("worker-{thread}")).spawn(move || {
        let hears = phase.clone();
        let _listening = panics::listen(move |words| hears.fail(format!("a client or its thread panicked: {words}")));
        // Created on this thread, because the recorder reads the CPU clock of its thread.
        let window = phase.clone();
        let warmup = move || window.warmup();
        let recorder = Recorder::new(thread as usize, slots, start, warmup, samples, finished, empty)
            .with_deadlines(phase.plan.deadlines())
            .with_kernel_timestamps(phase.plan.kernel_timestamps);
        let pinned = phase.cores.get(thread as usize).map_or(Ok(()), |core| own_cores::pin(*core));
        pinned.and_then(|()| client::run(&phase, thread, start, recorder)).unwrap_or_else(|error| {
            phase.fail(format!("a worker thread failed: {error}"));
            Leftover::default()
        })
    })
}

/// Refuses an invalid plan: checks it and maps its operations, without load. `together`: ranks exchange their state
/// during the phase. Raises the limit of file descriptors, and asks the driver to verify the target.
pub fn validate<D: Driver>(plan: Plan, together: bool) -> Result<(), PlanError> {
    prepare::<D>(plan, together).map(|_| ())
}

/// Result of an operation sent once.
pub struct Checked {
    /// Its name.
    pub operation: String,
    /// The reply.
    pub reply: Reply,
    /// Request and answer as readable text.
    pub exchange: Exchange,
    /// Setup time of the connections opened for it; `None` if none was.
    pub setup: Option<Duration>,
}

/// Sends each operation of the plan once, in order, and returns the results, for `loadframe check`.
/// An operation that ingests events is only rendered, with sample events; one that lacks a captured value is not sent.
/// Fails if the plan is invalid; failed requests are part of the result.
pub fn check_operations<D: Driver>(plan: Plan) -> Result<Vec<Checked>, PlanError> {
    let draw = Draw::new(plan.seed, 0, 0);
    let (phase, slots) = prepare::<D>(plan, false)?;
    phase.context.corpora.make_ready()?;
    tokio::task::LocalSet::new().block_on(&runtime()?, async {
        let mut connection = phase.driver.connection(0);
        let mut shown = Vec::new();
        for (name, source, choice) in once(&phase, &slots) {
            if let Some(source) = source {
                let now = Instant::now();
                let request = rendered(&phase, &mut connection, choice, source).unwrap_or_default();
                let answer = "not sent: this is a sample; the operation sends the events of a source".to_owned();
                let (reply, exchange) = (Reply::new(now, now, Ok(())), Exchange { request, answer });
                shown.push(Checked { operation: name.to_owned(), reply, exchange, setup: None });
                continue;
            }
            let knows = |slot| phase.driver.memory(&mut connection).is_some_and(|memory| memory.has(slot));
            let (reply, exchange) = match choice.lacks(knows) {
                Some(value) => {
                    let reply = client::unsent(value);
                    let answer = reply.outcome.as_ref().err().map(|failure| failure.message.clone());
                    (reply, Exchange { request: String::new(), answer: answer.unwrap_or_default() })
                }
                None => phase.driver.show(&mut connection, &choice.operation, &phase.context, &draw).await,
            };
            let mut setup = None;
            reconnects::take_setups(|duration| setup = Some(setup.unwrap_or_default() + duration));
            shown.push(Checked { operation: name.to_owned(), reply, exchange, setup });
        }
        Ok(shown)
    })
}

/// Returns the name of each operation and its request as readable text, without sending it; the text is `None` if the
/// driver cannot render it. Fails if the plan is invalid.
pub fn render_operations<D: Driver>(plan: Plan) -> Result<Vec<(String, Option<String>)>, PlanError> {
    let draw = Draw::new(plan.seed, 0, 0);
    let (phase, slots) = prepare::<D>(plan, false)?;
    tokio::task::LocalSet::new().block_on(&runtime()?, async {
        let mut connection = phase.driver.connection(0);
        let mut all = Vec::new();
        for (name, source, choice) in once(&phase, &slots) {
            let request = match source {
                Some(source) => rendered(&phase, &mut connection, choice, source),
                None => phase.driver.render(&mut connection, &choice.operation, &phase.context, &draw),
            };
            all.push((name.to_owned(), request));
        }
        Ok(all)
    })
}

/// Returns the request of an ingesting operation as readable text, with a sample event of each kind that it ingests;
/// `None` if the driver cannot render it.
fn rendered<D: Driver>(
    phase: &Phase<D>,
    connection: &mut D::Connection,
    choice: &Choice<D>,
    (source, stream_plan): (&plan::Source, &StreamPlan<D>),
) -> Option<String> {
    let mut batch = ingest::samples(&source.events);
    batch.events.retain(|event| stream_plan.route(event.kind) == choice.number);
    phase.driver.render_events(connection, &choice.operation, &phase.context, &batch)
}

/// An operation with its name. If it ingests events, also their source and the plan of the stream.
type Named<'a, D> = (&'a str, Option<(&'a plan::Source, &'a StreamPlan<D>)>, &'a Choice<D>);

/// Iterates over the operations of a phase, each name once; of an operation in several streams, the first stream
/// counts.
fn once<'a, D: Driver>(phase: &'a Phase<D>, slots: &'a [Slot]) -> impl Iterator<Item = Named<'a, D>> {
    let mut seen = HashSet::new();
    let source = |stream: &Stream| match &stream.pacing {
        Pacing::Source { source, .. } => phase.plan.sources.get(source),
        _ => None,
    };
    let streams = phase.plan.streams.iter().map(source).zip(&phase.stream_plans);
    let choices = streams.flat_map(|(source, stream_plan)| {
        let source = source.map(|source| (source, stream_plan));
        stream_plan.choices.iter().map(move |choice| (source, choice))
    });
    let named = choices.map(|(source, choice)| (slots[choice.slot].operation.as_str(), source, choice));
    named.filter(move |(name, ..)| seen.insert(*name))
}
