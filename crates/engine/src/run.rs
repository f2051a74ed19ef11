//! Runs one phase: checks and maps the plan, starts workers and collector, and describes the outcome at the end.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::Value;

use crate::clock::Reading;
use crate::collector::{Collector, Link, Progress, Slot};
use crate::draw::Draw;
use crate::driver::{Driver, Exchange, Reply};
use crate::panics;
use crate::phase::{Leftover, Phase, StreamEnd};
use crate::plan::{NEVER, Plan, PlanError};
use crate::recorder::{Interval, Recorder};
use crate::worker;

mod outcome;
mod prepare;

use outcome::{describe, write};
use prepare::{prepare, runtime};

/// Workers get this long to come up before the phase's common start.
const RUN_UP: Duration = Duration::from_millis(30);

/// A phase that is running, or has run.
pub struct Running {
    phase: Arc<dyn Control>,
    offset: Duration,
    progress: Arc<Mutex<Progress>>,
    finished: Arc<(Mutex<bool>, Condvar)>,
    outcome: Mutex<Option<JoinHandle<Result<Value, String>>>>,
}

impl Running {
    /// Ends the phase now; what was measured so far is kept.
    pub fn stop(&self) {
        self.phase.stop();
    }

    /// Changes the target's hosts while the load runs.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.phase.set_hosts(hosts)
    }

    /// Keeps the present clients of closed streams, regardless of later stages: none joins or leaves.
    pub fn hold(&self) {
        self.phase.hold();
    }

    /// Waits up to `limit` for the end; says whether it has come.
    pub fn wait(&self, limit: Duration) -> bool {
        let (finished, bell) = &*self.finished;
        let guard = finished.lock().expect("no thread panics while it holds the lock");
        *bell
            .wait_timeout_while(guard, limit, |finished| !*finished)
            .expect("no thread panics while it holds the lock")
            .0
    }

    /// When the load begins, or began, after the run did.
    pub fn offset(&self) -> Duration {
        self.offset
    }

    /// Figures for a waiting user.
    pub fn progress(&self) -> Progress {
        self.progress.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Waits for the end and returns the outcome, the content of `outcome.json`; an error when the records could not
    /// be written. Nothing of the phase goes on then. Once.
    pub fn outcome(&self) -> Result<Value, String> {
        let handle = self.outcome.lock().expect("no thread panics while it holds the lock").take();
        handle.ok_or("the outcome was taken already")?.join().map_err(|_| "the generator panicked".to_owned())?
    }
}

impl Drop for Running {
    /// A load without a handle must not go on.
    fn drop(&mut self) {
        self.phase.stop();
        if let Ok(Some(outcome)) = self.outcome.get_mut().map(Option::take) {
            let _ = outcome.join();
        }
    }
}

/// What can be asked of a phase while it runs, independent of its driver.
trait Control: Send + Sync {
    fn stop(&self);
    fn hold(&self);
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError>;
}

impl<D: Driver> Control for Phase<D> {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.driver.set_hosts(hosts)
    }
}

/// Starts a phase that records into `folder`. Errors come back at once, before anything is sent.
pub fn start<D: Driver>(plan: Plan, folder: &Path) -> Result<Running, PlanError> {
    let (phase, slots) = prepare::<D>(plan)?;
    let phase = Arc::new(phase);
    // The instants of the records are durations on the monotonic clock; one pair of readings ties them to the wall.
    let clock = Reading::take();
    let (start, started) = (clock.at + RUN_UP, clock.wall + RUN_UP);
    let progress = Arc::new(Mutex::new(Progress::default()));
    let offset = after(&phase.plan, &clock)?;
    let began = started.checked_sub(offset).unwrap_or(UNIX_EPOCH);
    let collector = Collector::create(folder, &phase.plan, slots.clone(), offset, began, progress.clone())
        .map_err(|e| PlanError::machine(format!("{}: {e}", folder.display())))?;
    let (mut links, mut ends) = (Vec::new(), Vec::new());
    for thread in 0..phase.plan.threads as usize {
        let (finished, intervals) = channel();
        let (recycle, empty) = channel();
        // Two to begin with: one is filled while the collector has the other.
        for _ in 0..2 {
            let _ = recycle.send(Interval::new(thread, slots.len()));
        }
        links.push(Link { intervals, empty: recycle });
        ends.push((finished, empty));
    }
    let (started_workers, workers) = channel();
    let finished = Arc::new((Mutex::new(false), Condvar::new()));
    let bell = Bell(finished.clone());
    let (phase2, folder, slots_len) = (phase.clone(), folder.to_owned(), slots.len());
    let outcome = thread::Builder::new()
        .name("collector".into())
        .spawn(move || {
            let _bell = bell;
            finish(&phase2, &slots, collector, links, &workers, clock, offset)
                .and_then(|outcome| write(&folder.join("outcome.json"), &outcome).map(|()| outcome))
        })
        .map_err(no_thread)?;
    // From here on dropping it ends everything that was started.
    let running = Running { phase: phase.clone(), offset, progress, finished, outcome: Mutex::new(Some(outcome)) };
    let spawned = (0..).zip(ends).try_for_each(|(thread, (finished, empty))| {
        let worker = spawn_worker(&phase, thread, slots_len, start, finished, empty).map_err(no_thread)?;
        let _ = started_workers.send(worker);
        Ok(())
    });
    // The collector waits for workers until it knows that it has them all.
    drop(started_workers);
    spawned.map(|()| running)
}

/// How long after the run the load begins: what comes before it, such as reading a corpus, belongs to no second of it.
fn after(plan: &Plan, clock: &Reading) -> Result<Duration, PlanError> {
    let Some(began) = plan.began else { return Ok(Duration::ZERO) };
    let seconds = clock.monotonic + RUN_UP.as_secs_f64() - began;
    match Duration::try_from_secs_f64(seconds) {
        Ok(offset) if seconds < NEVER => Ok(offset),
        _ => Err(PlanError::new(format!("the run began at {began} s of the monotonic clock, which is not past"))),
    }
}

/// Says that a phase is over, however its thread ends.
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Drop for Bell {
    fn drop(&mut self) {
        *self.0.0.lock().expect("no thread panics while it holds the lock") = true;
        self.0.1.notify_all();
    }
}

fn no_thread(error: std::io::Error) -> PlanError {
    PlanError::machine(format!("cannot start a thread: {error}"))
}

fn spawn_worker<D: Driver>(
    phase: &Arc<Phase<D>>,
    thread: u64,
    slots: usize,
    start: Instant,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
) -> std::io::Result<JoinHandle<Leftover>> {
    let plan = &phase.plan;
    let warmup = plan.warmup;
    let phase = phase.clone();
    thread::Builder::new().name(format!("worker-{thread}")).spawn(move || {
        let hears = phase.clone();
        let _listening = panics::listen(move |words| hears.fail(format!("a client or its thread panicked: {words}")));
        // Made here: a recorder reads the CPU clock of its own thread.
        let recorder = Recorder::new(thread as usize, slots, start, warmup, finished, empty);
        worker::run(&phase, thread, start, recorder).unwrap_or_else(|error| {
            phase.fail(format!("a worker thread failed: {error}"));
            Leftover::default()
        })
    })
}

/// Collects until the end, waits for all workers, and describes the outcome.
fn finish<D: Driver>(
    phase: &Arc<Phase<D>>,
    slots: &[Slot],
    collector: Collector,
    links: Vec<Link>,
    workers: &Receiver<JoinHandle<Leftover>>,
    clock: Reading,
    offset: Duration,
) -> Result<Value, String> {
    let hears = phase.clone();
    let _listening = panics::listen(move |words| hears.fail(format!("the collector panicked: {words}")));
    // Caught here, since the workers must not outlive what becomes of their records.
    let collected = catch_unwind(AssertUnwindSafe(|| collector.collect(links, &phase.stop)));
    if let Ok(Err(error)) = &collected {
        phase.fail(format!("cannot write the records: {error}"));
    }
    let mut leftover = Leftover { streams: vec![StreamEnd::NOTHING; phase.plan.streams.len()], ..Leftover::default() };
    for worker in workers {
        // Of a worker that panicked the phase has heard.
        let theirs = worker.join().unwrap_or_default();
        leftover.in_flight.extend(theirs.in_flight);
        for (stream, part) in leftover.streams.iter_mut().zip(theirs.streams) {
            *stream = stream.and(part);
        }
        leftover.ended = leftover.ended.max(theirs.ended);
    }
    match collected {
        Ok(Ok(totals)) => Ok(describe(phase, slots, &totals, &leftover, clock, offset)),
        _ => Err(phase.failure.get().cloned().unwrap_or_default()),
    }
}

/// Whether the plan can be carried out, as `start` sees it before any load.
pub fn validate<D: Driver>(plan: Plan) -> Result<(), PlanError> {
    prepare::<D>(plan).map(|_| ())
}

/// Each operation of the plan once, as readable text: what `loadframe check` shows.
pub fn check_operations<D: Driver>(plan: Plan) -> Result<Vec<(String, Reply, Exchange)>, PlanError> {
    let draw = Draw::new(plan.seed, 0, 0);
    let (phase, slots) = prepare::<D>(plan)?;
    tokio::task::LocalSet::new().block_on(&runtime()?, async {
        let mut connection = phase.driver.connection(0);
        let mut shown = Vec::new();
        for (name, operation) in once(&phase, &slots) {
            let (reply, exchange) = phase.driver.show(&mut connection, operation, &phase.context, &draw).await;
            shown.push((name.to_owned(), reply, exchange));
        }
        Ok(shown)
    })
}

/// The request of each operation of the plan as readable text, if its driver has one before it is sent.
pub fn render_operations<D: Driver>(plan: Plan) -> Result<Vec<(String, Option<String>)>, PlanError> {
    let draw = Draw::new(plan.seed, 0, 0);
    let (phase, slots) = prepare::<D>(plan)?;
    tokio::task::LocalSet::new().block_on(&runtime()?, async {
        let mut connection = phase.driver.connection(0);
        let render = |(name, operation): (&str, &D::Operation)| {
            (name.to_owned(), phase.driver.render(&mut connection, operation, &phase.context, &draw))
        };
        Ok(once(&phase, &slots).map(render).collect())
    })
}

/// Each operation of a phase, in its order, with its name.
fn once<'a, D: Driver>(phase: &'a Phase<D>, slots: &'a [Slot]) -> impl Iterator<Item = (&'a str, &'a D::Operation)> {
    let mut seen = HashSet::new();
    let choices = phase.courses.iter().flat_map(|course| &course.choices);
    let named = choices.map(|choice| (slots[choice.slot].operation.as_str(), &choice.operation));
    named.filter(move |(name, _)| seen.insert(*name))
}
