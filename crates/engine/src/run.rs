//! Runs one phase: checks and maps the plan, starts workers and collector, and says at the end what came out.

use std::collections::HashSet;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::clock::Reading;
use crate::collector::{Collector, Link, Progress, Slot, Totals};
use crate::corpus::Corpora;
use crate::descriptors;
use crate::draw::Draw;
use crate::driver::{Context, Driver, ErrorClass, Exchange, Reply};
use crate::panics;
use crate::plan::{Level, Pacing, Plan, PlanError, Stop, Stream, Think, ThinkDraw};
use crate::profile::Profile;
use crate::recorder::{Interval, Recorder};
use crate::schedule::{NEVER, Share};
use crate::variables::Variables;
use crate::worker::{self, Choice, Course, Leftover, Phase, StreamEnd};

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

    /// Keeps the clients of closed streams who are there now, whatever the stages to come say: none comes or leaves.
    pub fn hold(&self) {
        self.phase.hold();
    }

    /// Waits up to `limit` for the end; says whether it has come.
    pub fn wait(&self, limit: Duration) -> bool {
        let (finished, bell) = &*self.finished;
        let guard = finished.lock().expect("nobody panics with it in hand");
        *bell.wait_timeout_while(guard, limit, |finished| !*finished).expect("nobody panics with it in hand").0
    }

    /// When the load begins, or began, after the run did.
    pub fn offset(&self) -> Duration {
        self.offset
    }

    /// What a person who waits wants to see.
    pub fn progress(&self) -> Progress {
        self.progress.lock().expect("nobody panics with it in hand").clone()
    }

    /// Waits for the end and says what came out, as it also stands in `outcome.json`; an error when the records could not
    /// be written. Nothing of the phase goes on then. Once.
    pub fn outcome(&self) -> Result<Value, String> {
        let handle = self.outcome.lock().expect("nobody panics with it in hand").take();
        handle.ok_or("the outcome was taken already")?.join().map_err(|_| "the generator panicked".to_owned())?
    }
}

impl Drop for Running {
    /// A load that nobody can end any more must not go on.
    fn drop(&mut self) {
        self.phase.stop();
        if let Ok(Some(outcome)) = self.outcome.get_mut().map(Option::take) {
            let _ = outcome.join();
        }
    }
}

/// What can be asked of a phase while it runs, whatever its driver.
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

/// Everything that can be wrong with a plan is said here; afterwards only files and sockets can fail.
fn prepare<D: Driver>(plan: Plan) -> Result<(Phase<D>, Vec<Slot>), PlanError> {
    check(&plan)?;
    let mut driver = D::new(&plan.target).map_err(|e| e.within("target"))?;
    if let Some(connections) = plan.target.connections {
        driver.cap(connections, plan.ranks * plan.threads).map_err(|e| e.within("target"))?;
    }
    let corpora = Corpora::open(&plan.corpora, plan.seed)?;
    let mut variables = Variables::with_corpora(&plan.variables, &corpora)?;
    if !D::CAPTURES {
        variables.refuse_captured(&plan.target.driver);
    }
    let context = Context { variables, corpora };
    let (mut courses, mut profiles, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    let mut slots = Vec::new();
    for stream in &plan.streams {
        let place = || format!("stream {:?}", stream.name);
        let total: f64 = stream.mix.iter().map(|(_, weight)| weight).sum();
        let steps = stream.journey.iter().map(|step| (&step.operation, 1.0 / stream.journey.len() as f64));
        let shares = stream.mix.iter().map(|(name, weight)| (name, weight / total)).chain(steps);
        let mut sum = 0.0;
        let mut choices = Vec::new();
        let mut exhausted = None;
        for (name, share) in shares {
            let form = &plan.operations[name];
            let operation = driver.map(form, &context).map_err(|e| e.within(format!("operation {name:?}")))?;
            let requests = driver.requests(&operation);
            if requests.is_some() && stream.mix.len() + stream.journey.len() > 1 {
                let cause = "it sends each document of its corpus once, so it needs a stream of its own";
                return Err(PlanError(cause.into()).within(format!("operation {name:?} in a mix or journey")));
            }
            exhausted = exhausted.or(requests);
            sum += share;
            let slot = Slot { stream: stream.name.clone(), operation: name.clone(), part: None };
            // A journey may come by the same operation twice.
            let known = slots.iter().position(|other| *other == slot);
            let slot = known.unwrap_or_else(|| {
                let parts = driver.parts(&operation).iter().map(|part| Slot { part: Some(part), ..slot.clone() });
                let place = slots.len();
                slots.extend([slot.clone()].into_iter().chain(parts));
                place
            });
            choices.push(Choice { operation, below: sum, slot });
        }
        let course = Course { choices, thinks: stream.journey.iter().map(|step| step.think_time).collect() };
        limits.push(match stream.stop {
            Stop::Requests(requests) if requests % course.steps() != 0 => {
                let cause = format!("{requests} requests are no whole number of journeys of {} steps", course.steps());
                return Err(PlanError(cause).within(place()));
            }
            Stop::Requests(requests) => Some(exhausted.map_or(requests, |most| most.min(requests)) / course.steps()),
            Stop::Exhausted if exhausted.is_none() => {
                let cause = "it runs until its corpus is exhausted, but its operation reads none";
                return Err(PlanError(cause.into()).within(place()));
            }
            Stop::Exhausted | Stop::Duration(_) => exhausted,
        });
        let (Pacing::Closed { clients: level, .. } | Pacing::Open { rate: level, .. }) = &stream.pacing;
        profiles.push(Profile::new(level).map_err(|e| e.within(place()))?);
        courses.push(course);
    }
    if let Some(slot) = slots.iter().find(|slot| slot.part.is_some() && plan.operations.contains_key(&slot.name())) {
        let cause = format!("the parts of {:?} are recorded under this name; give it another", slot.operation);
        return Err(PlanError(cause).within(format!("operation {:?}", slot.name())));
    }
    descriptors::provide(&plan, &profiles)?;
    runtime()?.block_on(driver.verify()).map_err(|e| e.within("target"))?;
    Ok((
        Phase {
            plan,
            driver,
            context,
            courses,
            profiles,
            limits,
            stop: AtomicBool::new(false),
            held: AtomicBool::new(false),
            failure: OnceLock::new(),
        },
        slots,
    ))
}

/// For the little that is asked of the target before the load begins.
fn runtime() -> Result<tokio::runtime::Runtime, PlanError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| PlanError(format!("cannot start a runtime: {e}")))
}

/// The plan's own figures; names and forms are the driver's to judge.
fn check(plan: &Plan) -> Result<(), PlanError> {
    let fail = |message: String| Err(PlanError(message));
    if plan.ranks == 0 || plan.threads == 0 || plan.rank >= plan.ranks {
        return fail(format!("rank {} of {} with {} threads is no generator", plan.rank, plan.ranks, plan.threads));
    }
    for (what, seconds) in [("warmup", plan.warmup), ("drain", plan.drain)] {
        if !(0.0..1e9).contains(&seconds) {
            return fail(format!("{what} of {seconds} s: give 0 or more"));
        }
    }
    let workers = plan.ranks * plan.threads;
    match plan.target.connections {
        Some(0) => return fail("target: 0 connections carry nothing: give 1 or more".into()),
        Some(connections) if connections < workers => {
            return fail(format!(
                "target: {connections} connections for {workers} worker threads: give each at least one"
            ));
        }
        _ => {}
    }
    if plan.streams.is_empty() {
        return fail("a phase needs a stream".into());
    }
    let mut names = HashSet::new();
    for stream in &plan.streams {
        let within = |message: String| Err(PlanError(message).within(format!("stream {:?}", stream.name)));
        if !names.insert(&stream.name) {
            return within("the name is taken by another stream of this phase".into());
        }
        if stream.mix.is_empty() == stream.journey.is_empty() {
            return within("it names no operation, or both a mix and a journey".into());
        }
        let steps = stream.journey.iter().map(|step| (&step.operation, 1.0));
        for (operation, weight) in stream.mix.iter().map(|(name, weight)| (name, *weight)).chain(steps) {
            if !plan.operations.contains_key(operation) {
                return within(format!("there is no operation {operation:?}"));
            }
            if !(weight > 0.0 && weight.is_finite()) {
                return within(format!("operation {operation:?} has weight {weight}: give more than 0"));
            }
        }
        for time in stream.journey.iter().map(|step| step.think_time) {
            check_think(time).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
        }
        match stream.pacing {
            Pacing::Closed { clients: Level::Constant(clients), .. } if clients < 1.0 => {
                return within(format!("{clients} clients send nothing: give 1 or more"));
            }
            Pacing::Closed { think_time, .. } => {
                check_think(think_time).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
            }
            Pacing::Open { rate: Level::Constant(rate), .. } if !(rate > 0.0 && rate <= 1e9) => {
                return within(format!("rate of {rate} a second: give more than 0"));
            }
            Pacing::Open { max_in_flight: 0, .. } => return within("max_in_flight of 0 drops everything".into()),
            Pacing::Open { .. } => {}
        }
        match stream.stop {
            Stop::Duration(seconds) if !(seconds > 0.0 && seconds < 1e9) => {
                return within(format!("duration of {seconds} s: give more than 0"));
            }
            Stop::Requests(0) => return within("0 requests: give 1 or more".into()),
            _ => {}
        }
    }
    for name in plan.operations.keys().chain(names).chain([&plan.phase]) {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
            return fail(format!("{name:?} is no name: use letters, digits, '_', '-' and '.'"));
        }
    }
    Ok(())
}

fn check_think(time: Think) -> Result<(), PlanError> {
    let parts = match time {
        Think::Constant(seconds) | Think::Drawn(ThinkDraw::Exponential(seconds)) => [seconds, seconds],
        Think::Drawn(ThinkDraw::Uniform(low, high)) => [low, high - low],
        Think::Drawn(ThinkDraw::Normal(mean, deviation)) => [mean, deviation],
    };
    match parts.iter().all(|part| (0.0..1e9).contains(part)) {
        true => Ok(()),
        false => Err(PlanError(format!("think time {time:?}: give seconds of 0 or more, bounds in their order"))),
    }
}

/// Starts a phase that records into `folder`. Errors of the plan come back at once, before anything is sent.
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
        .map_err(|e| PlanError(format!("{}: {e}", folder.display())))?;
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
    // From here on dropping it ends whatever was started.
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
        _ => Err(PlanError(format!("the run began at {began} s of the monotonic clock, which is not past"))),
    }
}

/// Says that a phase is over, however its thread ends.
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Drop for Bell {
    fn drop(&mut self) {
        *self.0.0.lock().expect("nobody panics with it in hand") = true;
        self.0.1.notify_all();
    }
}

fn no_thread(error: std::io::Error) -> PlanError {
    PlanError(format!("cannot start a thread: {error}"))
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
    let share = Share::new(plan.rank, plan.ranks, thread, plan.threads);
    let warmup = Duration::from_secs_f64(plan.warmup);
    let phase = phase.clone();
    thread::Builder::new().name(format!("worker-{thread}")).spawn(move || {
        let hears = phase.clone();
        let _listening = panics::listen(move |words| hears.fail(format!("a client or its thread panicked: {words}")));
        // Made here: a recorder reads the CPU clock of its own thread.
        let recorder = Recorder::new(thread as usize, slots, start, warmup, finished, empty);
        worker::run(&phase, share, start, recorder).unwrap_or_else(|error| {
            phase.fail(format!("a worker thread failed: {error}"));
            Leftover::default()
        })
    })
}

/// Collects until the end, sees all workers out, and says what came out.
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

/// The phase's outcome: what the rows of its files do not say.
fn describe<D: Driver>(
    phase: &Phase<D>,
    slots: &[Slot],
    totals: &Totals,
    leftover: &Leftover,
    clock: Reading,
    offset: Duration,
) -> Value {
    let plan = &phase.plan;
    let operations: Vec<Value> = slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.part.is_none())
        .map(|(index, slot)| {
            let [warmup, counts] = &totals.counts[index];
            let ages: Vec<f64> =
                leftover.in_flight.iter().filter(|(s, _)| *s == index).map(|(_, age)| age.as_secs_f64()).collect();
            json!({
                "stream": slot.stream,
                "operation": slot.operation,
                "requests": counts.requests,
                "successes": counts.successes,
                "documents": counts.documents,
                "completed": warmup.completed + counts.completed,
                "completed_documents": warmup.completed_documents + counts.completed_documents,
                "dropped": counts.dropped,
                "retries": counts.retries,
                "warmup": {"requests": warmup.requests, "successes": warmup.successes, "documents": warmup.documents},
                "in_flight_at_end": ages.len(),
                "in_flight_oldest": ages.iter().copied().reduce(f64::max),
                "errors": totals.messages.iter().filter(|m| m.slot == index)
                    .map(|m| json!({"class": m.class.name(), "message": m.text})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let parts = slots.iter().zip(&totals.counts).filter_map(|(slot, [warmup, counts])| {
        let part = slot.part?;
        Some(json!({
            "stream": slot.stream,
            "operation": slot.operation,
            "part": part,
            "requests": counts.requests,
            "successes": counts.successes,
            "documents": counts.documents,
            "completed": warmup.completed + counts.completed,
            "completed_documents": warmup.completed_documents + counts.completed_documents,
        }))
    });
    let stopped = phase.stop.load(Ordering::Relaxed);
    let last_done = leftover.streams.iter().map(|end| end.last_done).max().unwrap_or_default();
    let measured_of = |stream: &Stream, end: &StreamEnd| {
        let since_warmup = |instant: Duration| (instant.as_secs_f64() - plan.warmup).max(0.0);
        measured(stream.stop, since_warmup(end.last_done), end.ran_out, stopped.then(|| since_warmup(leftover.ended)))
    };
    let streams: Vec<(&Stream, f64, bool)> = (plan.streams.iter().zip(&leftover.streams))
        .map(|(stream, end)| {
            let cut = end.ran_out && matches!(stream.stop, Stop::Duration(_));
            (stream, measured_of(stream, end), cut)
        })
        .collect();
    let now = Reading::take();
    let wall = (clock.wall + RUN_UP).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    json!({
        "phase": plan.phase,
        "driver": plan.target.driver,
        "started": wall,
        "clock": {
            "uncertainty": clock.uncertainty.max(now.uncertainty).as_secs_f64(),
            "drift": now.drift(&clock),
        },
        "offset": offset.as_secs_f64(),
        "warmup": plan.warmup,
        "measured": streams.iter().map(|(_, measured, _)| *measured).fold(0.0, f64::max),
        "last_done": last_done.as_secs_f64(),
        "interrupted": stopped && totals.stopped_by.is_none() && phase.failure.get().is_none(),
        "failed": phase.failure.get(),
        "stopped_by": totals.stopped_by.as_ref().map(|condition| json!({
            "metric": condition.metric, "above": condition.above, "seconds": condition.seconds})),
        "rank": plan.rank,
        "ranks": plan.ranks,
        "threads": plan.threads,
        "hosts": phase.driver.hosts(),
        "unreachable": phase.driver.unreachable().iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
        "streams": streams.iter().map(|(stream, measured, cut)| json!({
            "name": stream.name,
            "pacing": stream.pacing,
            "measured": measured,
            "ran_out": cut,
        })).collect::<Vec<_>>(),
        "operations": operations,
        "parts": parts.collect::<Vec<_>>(),
        "set_aside": set_aside(&phase.context.corpora),
        "error_classes": ErrorClass::ALL.map(ErrorClass::name),
    })
}

/// For how long a stream ran after the warm-up, s, which is what its requests per second are counted by. One that ends
/// by itself ran until its last answer at `last`; one that the clock or somebody ends (at `stopped`), until then.
fn measured(stop: Stop, last: f64, ran_out: bool, stopped: Option<f64>) -> f64 {
    let most = if let Stop::Duration(seconds) = stop { seconds } else { f64::INFINITY };
    match stopped {
        _ if ran_out => last.min(most),
        Some(stopped) => stopped.min(most),
        None if most.is_finite() => most,
        None => last,
    }
}

/// The corpora of which lines were kept aside.
fn set_aside(corpora: &Corpora) -> Vec<Value> {
    let told = corpora.iter().map(|(name, corpus)| (name, corpus.set_aside()));
    told.filter(|(_, (lines, _))| *lines > 0)
        .map(|(name, (lines, kept))| json!({"corpus": name, "lines": lines, "kept": kept}))
        .collect()
}

fn write(path: &Path, outcome: &Value) -> Result<(), String> {
    let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::to_writer_pretty(file, outcome).map_err(|e| format!("{}: {e}", path.display()))
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
