//! Runs one phase: checks and maps the plan, starts workers and collector, and says at the end what came out.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::clock::Reading;
use crate::collector::{Collector, Progress, Slot, Totals};
use crate::corpus::Corpora;
use crate::descriptors;
use crate::draw::Draw;
use crate::driver::{Context, Driver, ErrorClass, Exchange, Reply};
use crate::plan::{Level, Pacing, Plan, PlanError, Stop, Think, ThinkDraw};
use crate::profile::Profile;
use crate::recorder::{Interval, Recorder};
use crate::schedule::Share;
use crate::variables::Variables;
use crate::worker::{self, Choice, Course, Leftover, Phase};

/// Workers get this long to come up before the phase's common start.
const RUN_UP: Duration = Duration::from_millis(30);

/// A phase that is running, or has run.
pub struct Running {
    phase: Arc<dyn Control>,
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

    /// What a person who waits wants to see.
    pub fn progress(&self) -> Progress {
        self.progress.lock().expect("nobody panics with it in hand").clone()
    }

    /// Waits for the end and says what came out, as it also stands in `outcome.json`. Once.
    pub fn outcome(&self) -> Result<Value, String> {
        let handle = self.outcome.lock().expect("nobody panics with it in hand").take();
        handle.ok_or("the outcome was taken already")?.join().map_err(|_| "the generator panicked".to_owned())?
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
    let variables = Variables::with_corpora(&plan.variables, &corpora)?;
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
    for (what, seconds) in [("warmup", plan.warmup), ("drain", plan.drain), ("offset", plan.offset)] {
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
    let began = started.checked_sub(Duration::from_secs_f64(phase.plan.offset)).unwrap_or(UNIX_EPOCH);
    let collector = Collector::create(folder, &phase.plan, slots.clone(), began, progress.clone())
        .map_err(|e| PlanError(format!("{}: {e}", folder.display())))?;
    let (sender, intervals) = channel();
    let mut empties = Vec::new();
    let mut workers = Vec::new();
    for thread in 0..phase.plan.threads {
        let (recycle, empty) = channel();
        empties.push(recycle);
        workers.push(spawn_worker(&phase, thread, slots.len(), start, sender.clone(), empty)?);
    }
    drop(sender);
    let finished = Arc::new((Mutex::new(false), Condvar::new()));
    let bell = finished.clone();
    let (phase2, folder) = (phase.clone(), folder.to_owned());
    let outcome = thread::Builder::new()
        .name("collector".into())
        .spawn(move || {
            let result = finish(&phase2, &slots, collector, &intervals, &empties, workers, clock)
                .and_then(|outcome| write(&folder.join("outcome.json"), &outcome).map(|()| outcome));
            *bell.0.lock().expect("nobody panics with it in hand") = true;
            bell.1.notify_all();
            result
        })
        .map_err(|e| PlanError(format!("cannot start a thread: {e}")))?;
    Ok(Running { phase, progress, finished, outcome: Mutex::new(Some(outcome)) })
}

fn spawn_worker<D: Driver>(
    phase: &Arc<Phase<D>>,
    thread: u64,
    slots: usize,
    start: Instant,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
) -> Result<JoinHandle<std::io::Result<Leftover>>, PlanError> {
    let plan = &phase.plan;
    let share = Share::new(plan.rank, plan.ranks, thread, plan.threads);
    let warmup = Duration::from_secs_f64(plan.warmup);
    let phase = phase.clone();
    thread::Builder::new()
        .name(format!("worker-{thread}"))
        .spawn(move || {
            // Made here: a recorder reads the CPU clock of its own thread.
            let recorder = Recorder::new(thread as usize, slots, start, warmup, finished, empty);
            worker::run(&phase, share, start, recorder)
        })
        .map_err(|e| PlanError(format!("cannot start a thread: {e}")))
}

fn finish<D: Driver>(
    phase: &Phase<D>,
    slots: &[Slot],
    collector: Collector,
    intervals: &Receiver<Interval>,
    empties: &[Sender<Interval>],
    workers: Vec<JoinHandle<std::io::Result<Leftover>>>,
    clock: Reading,
) -> Result<Value, String> {
    let totals =
        collector.collect(intervals, empties, &phase.stop).map_err(|e| format!("cannot write the records: {e}"))?;
    let mut leftover = Leftover::default();
    for worker in workers {
        let theirs = worker.join().map_err(|_| "a worker panicked")?.map_err(|e| format!("a worker failed: {e}"))?;
        leftover.in_flight.extend(theirs.in_flight);
        leftover.last_done = leftover.last_done.max(theirs.last_done);
    }
    Ok(describe(phase, slots, &totals, &leftover, clock))
}

/// The phase's outcome: what the rows of its files do not say.
fn describe<D: Driver>(
    phase: &Phase<D>,
    slots: &[Slot],
    totals: &Totals,
    leftover: &Leftover,
    clock: Reading,
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
    let durations = plan.streams.iter().map(|stream| match stream.stop {
        Stop::Duration(seconds) => Some(seconds),
        _ => None,
    });
    let stopped = phase.stop.load(Ordering::Relaxed);
    let last_done = leftover.last_done.as_secs_f64();
    // A phase that ends by itself was measured until its last answer; one that ends by the clock, until then.
    let measured = match durations.reduce(|a, b| Some(a?.max(b?))).flatten() {
        Some(seconds) if !stopped => seconds,
        _ => (last_done - plan.warmup).max(0.0),
    };
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
        "offset": plan.offset,
        "warmup": plan.warmup,
        "measured": measured,
        "last_done": last_done,
        "interrupted": stopped && totals.stopped_by.is_none(),
        "stopped_by": totals.stopped_by.as_ref().map(|condition| json!({
            "metric": condition.metric, "above": condition.above, "seconds": condition.seconds})),
        "rank": plan.rank,
        "ranks": plan.ranks,
        "threads": plan.threads,
        "hosts": phase.driver.hosts(),
        "unreachable": phase.driver.unreachable().iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
        "streams": plan.streams.iter().map(|stream| json!({
            "name": stream.name,
            "pacing": stream.pacing,
        })).collect::<Vec<_>>(),
        "operations": operations,
        "parts": parts.collect::<Vec<_>>(),
        "set_aside": set_aside(&phase.context.corpora),
        "error_classes": ErrorClass::ALL.map(ErrorClass::name),
    })
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
