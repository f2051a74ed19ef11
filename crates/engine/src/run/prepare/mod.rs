//! Checks a plan and maps its operations. Every error of a plan is reported here, before anything is sent.

mod executions;
mod sources;
mod users;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::client::counters::Counter;
use crate::client::phase::Phase;
use crate::client::stream_plan::{Choice, StreamPlan};
use crate::driver::{Context, Driver};
use crate::ingest::Source;
use crate::pacing::profile::Profile;
use crate::plan::{
    Level, MixOrder, Pacing, Plan, PlanError, Sampling, Stop, Stream, Think, ThinkDraw, Tracing, Visible,
};
use crate::reactor::Timestamping;
use crate::recording::latest_answers::Kept;
use crate::recording::slot::Slot;
use crate::run::descriptors;
use crate::util::draw::hash_name;
use crate::workload::corpus::Corpora;
use crate::workload::permuted_mix;
use crate::workload::variables::{Origin, VariableId, Variables};

/// Checks a plan and maps its operations; afterwards only files and sockets can fail. Returns the phase and its
/// slots. Raises the limit of file descriptors, and asks the driver to verify the target. `together`: ranks exchange
/// their state during the phase.
pub(super) fn prepare<D: Driver>(plan: Plan, together: bool) -> Result<(Phase<D>, Vec<Slot>), PlanError> {
    check(&plan)?;
    let mut driver = D::new(&plan.target).map_err(|e| e.within("target"))?;
    if plan.trace.is_some() && !driver.has_traces() {
        let cause = format!(
            "traces require requests over HTTP, which the driver {:?} does not send: remove --trace",
            plan.target.driver
        );
        return Err(PlanError::new(cause).within("target"));
    }
    let timestamping = plan.kernel_timestamps.then(|| timestamping(&plan.target.driver, &driver)).transpose()?;
    if let Some(connections) = plan.target.connections {
        driver.cap(connections, plan.ranks * plan.threads).map_err(|e| e.within("target"))?;
    }
    let corpora = Corpora::open(&plan.corpora, plan.seed)?;
    let mut variables = Variables::with_corpora(&plan.variables, &corpora)?;
    if !driver.captures() {
        variables.refuse_captured(&plan.target.driver);
    }
    variables.count_from(Origin { seed: plan.seed, phase: hash_name(&plan.phase) });
    let mut counters = Counters::default();
    let context = Context { variables, corpora };
    let (mut stream_plans, mut profiles, mut limits, mut simulated_clocks) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut slots = Vec::new();
    let mut answers = BTreeMap::<String, Arc<Kept>>::new();
    let mut requests_of = BTreeMap::new();
    for stream in &plan.streams {
        let place = || format!("stream {:?}", stream.name);
        let total: f64 = stream.mix.iter().map(|(_, weight)| weight).sum();
        let steps = stream.journey.iter().map(|step| (&step.operation, 1.0 / stream.journey.len() as f64));
        let ways = users::operations(&stream.steps).into_iter().map(|name| (name, 0.0));
        let group = stream.order == MixOrder::Together;
        let mix = stream.mix.iter().flat_map(|(name, weight)| {
            let times = if group { *weight as usize } else { 1 };
            std::iter::repeat_n((name, weight / total), times)
        });
        let shares = mix.chain(steps).chain(ways);
        let mut sum = 0.0;
        let mut choices = Vec::new();
        let mut exhausted = None;
        for (name, share) in shares {
            let form = &plan.operations[name];
            let operation = driver.map(form, &context).map_err(|e| e.within(format!("operation {name:?}")))?;
            let ingests = driver.ingests(&operation);
            sources::suits(stream, ingests).map_err(|e| e.within(format!("operation {name:?}")))?;
            let sampling = sources::sampling(&plan, name, &driver, &operation);
            let sampled = sampling.map_err(|e| e.within(format!("operation {name:?}")))?.is_some();
            let requests = driver.requests(&operation);
            if requests.is_some() && (group || stream.mix.len() + stream.journey.len() != 1) {
                let cause = "it sends each document of its corpus once: give it a separate stream";
                return Err(PlanError::new(cause).within(format!("operation {name:?} in a mix or journey")));
            }
            exhausted = exhausted.or(requests);
            sum += share;
            let slot = Slot { stream: stream.name.clone(), operation: name.clone(), part: None, of_several: false };
            // A journey may contain the same operation twice.
            let known = slots.iter().position(|other| *other == slot);
            let first_executions = executions::first_executions(&plan, name, &mut requests_of, &context.variables);
            let mut first_executions = first_executions.map_err(|e| e.within(format!("operation {name:?}")))?;
            first_executions.place = driver.parts(&operation).len();
            let slot = known.unwrap_or_else(|| {
                let events = ingests.then_some(&sources::EVENT);
                let looked_for = sources::LOOKED_FOR.iter().filter(|_| sampled);
                let parts = driver.parts(&operation).iter().chain(events).chain(looked_for).copied();
                let parts = parts.chain(first_executions.parts()).map(|part| Slot { part: Some(part), ..slot.clone() });
                let place = slots.len();
                slots.extend([slot.clone()].into_iter().chain(parts));
                place
            });
            let place = || format!("operation {name:?}");
            let counted = context.variables.counted(form).map_err(|e| e.within(place()))?;
            let uses = counted.uses.map(|counter| counters.place(counter));
            let reads = counted.reads.map(|counter| counters.place(counter));
            let needs = context.variables.needs(form);
            let visible = plan.visible.get(name).copied().filter(|visible| visible.sample.is_none());
            let kept = plan.answers.contains(name).then(|| answers.entry(name.clone()).or_default().clone());
            let number = choices.len();
            let tracing = plan.trace.filter(|_| driver.traces(&operation));
            choices.push(Choice {
                number,
                operation,
                below: sum,
                slot,
                uses,
                reads,
                visible,
                kept,
                first_executions,
                needs,
                tracing,
            });
        }
        for name in users::timed(&stream.steps) {
            if plan.operations.contains_key(name) {
                let cause = format!("{name:?} is also the name of an operation: rename the timed steps");
                return Err(PlanError::new(cause).within(place()));
            }
            slots.push(Slot { stream: stream.name.clone(), operation: name.clone(), part: None, of_several: true });
        }
        let thinks = stream.journey.iter().map(|step| step.think_time).collect();
        let mut stream_plan = StreamPlan::new(choices, thinks, group);
        stream_plan.routes = sources::routes(&plan, stream).map_err(|e| e.within(place()))?;
        if stream.order == MixOrder::Permuted {
            let weights: Vec<f64> = stream.mix.iter().map(|(_, weight)| *weight).collect();
            stream_plan.permuted_mix =
                permuted_mix::places(&weights).map_err(|words| PlanError::new(words).within(place()))?;
            if !stream_plan.groups.is_empty() {
                let cause = "a permuted mix must not use a counter: remove the order";
                return Err(PlanError::new(cause).within(place()));
            }
        }
        counters.claim(&stream_plan, &stream.name, &context.variables).map_err(|e| e.within(place()))?;
        let joined = users::join(&plan, stream, &mut stream_plan, &context, &slots, together && plan.ranks > 1);
        simulated_clocks.push(joined.map_err(|e| e.within(place()))?);
        limits.push(match stream.stop {
            Stop::Requests(requests) if requests % stream_plan.steps() != 0 => {
                let (what, of) = if group { ("groups", "requests") } else { ("journeys", "steps") };
                let steps = stream_plan.steps();
                let cause = format!("{requests} requests are not a whole number of {what} of {steps} {of}");
                return Err(PlanError::new(cause).within(place()));
            }
            Stop::Requests(requests) => {
                Some(exhausted.map_or(requests, |most| most.min(requests)) / stream_plan.steps())
            }
            Stop::Exhausted if exhausted.is_none() && !sources::has_source(stream) => {
                let cause = "it runs until its corpus is exhausted, but its operation reads no corpus";
                return Err(PlanError::new(cause).within(place()));
            }
            Stop::Exhausted | Stop::Duration(_) | Stop::Journeys(_) | Stop::Ended => exhausted,
        });
        let users = |users: u64, clients: u64| Level::Constant(users.min(clients) as f64);
        let profile = match &stream.pacing {
            Pacing::Closed { clients: level, .. } | Pacing::Open { rate: level, .. } => Profile::new(level),
            Pacing::Users { users: number, clients, .. } => Profile::new(&users(*number, *clients)),
            Pacing::Source { workers, .. } => Profile::new(&Level::Constant(*workers as f64)),
        };
        profiles.push(profile.map_err(|e| e.within(place()))?);
        stream_plans.push(stream_plan);
    }
    if let Some(slot) = slots.iter().find(|slot| slot.part.is_some() && plan.operations.contains_key(&slot.name())) {
        let cause = format!("the parts of {:?} are recorded under this name; give it another", slot.operation);
        return Err(PlanError::new(cause).within(format!("operation {:?}", slot.name())));
    }
    let going = plan.streams.iter().map(|_| AtomicU64::new(plan.threads)).collect();
    let together = together && plan.ranks > 1;
    if !together {
        refuse_ranks_that_see_no_end(&plan, &profiles)?;
    }
    descriptors::provide(&plan, &profiles)?;
    let sources = sources::of(&plan)?;
    runtime()?.block_on(driver.verify()).map_err(|e| e.within("target"))?;
    let plan_threads = plan.threads;
    Ok((
        Phase {
            plan,
            cores: Vec::new(),
            driver,
            context,
            stream_plans,
            profiles,
            limits,
            simulated_clocks,
            sources,
            answers,
            counters: counters.places.iter().map(|_| Counter::new(plan_threads, together)).collect(),
            stop: AtomicBool::new(false),
            held: AtomicBool::new(false),
            failure: OnceLock::new(),
            going,
            measured_from: OnceLock::new(),
            ended: OnceLock::new(),
            closing: AtomicBool::new(false),
            together,
            timestamping,
        },
        slots,
    ))
}

/// Starts kernel timestamps. Refuses them if the driver (`name`) does not read them, or if the kernel has none.
fn timestamping<D: Driver>(name: &str, driver: &D) -> Result<Timestamping, PlanError> {
    if !driver.has_kernel_timestamps() || driver.uses_tokio() {
        let cause = format!(
            "kernel timestamps require connections of the engine, which the driver {name:?} does not use: remove \
             \"kernel_timestamps\""
        );
        return Err(PlanError::new(cause).within("target"));
    }
    Timestamping::start().map_err(|error| {
        PlanError::machine(format!(
            "this kernel does not provide timestamps of connections (SO_TIMESTAMPING: {error}): remove \
             \"kernel_timestamps\""
        ))
    })
}

/// Counters of a phase's operations, in the order of [`Phase::counters`], each with the stream that uses it.
#[derive(Default)]
struct Counters {
    places: Vec<(VariableId, Option<String>)>,
}

impl Counters {
    /// Returns the index of a counter among the phase's counters; adds it if it is new.
    fn place(&mut self, counter: VariableId) -> usize {
        let known = self.places.iter().position(|(other, _)| *other == counter);
        known.unwrap_or_else(|| {
            self.places.push((counter, None));
            self.places.len() - 1
        })
    }

    /// Records that stream `stream` uses its counters. Refuses a counter that another stream uses, which would repeat
    /// its numbers, and a journey or group with two counters.
    fn claim<D: Driver>(
        &mut self,
        stream_plan: &StreamPlan<D>,
        stream: &str,
        variables: &Variables,
    ) -> Result<(), PlanError> {
        let used: HashSet<usize> = stream_plan.choices.iter().filter_map(|choice| choice.uses).collect();
        if used.len() > 1 && !stream_plan.thinks.is_empty() {
            return Err(PlanError::new("its journey or group uses two counters: use at most one"));
        }
        for counter in used {
            let (id, claimed) = &mut self.places[counter];
            if let Some(other) = claimed {
                return Err(PlanError::new(format!(
                    "the counter {:?} is used by the stream {other:?}, too, and would give the same numbers twice: \
                     give each stream its own",
                    variables.name(*id)
                )));
            }
            *claimed = Some(stream.to_owned());
        }
        Ok(())
    }
}

/// Refuses a stream that ends the phase and has fewer clients than there are ranks. Without communication, a rank
/// without a part of this stream would not notice its end.
fn refuse_ranks_that_see_no_end(plan: &Plan, profiles: &[Profile]) -> Result<(), PlanError> {
    for (stream, profile) in plan.streams.iter().zip(profiles) {
        let (parts, unit) = match stream.pacing {
            Pacing::Closed { .. } => (profile.greatest() as u64, "clients"),
            Pacing::Open { max_in_flight, .. } => (max_in_flight, "requests in flight"),
            Pacing::Users { users, clients, .. } => (users.min(clients), "clients"),
            Pacing::Source { workers, .. } => (workers, "workers"),
        };
        if plan.ends_with.contains(&stream.name) && parts / stream.group() < plan.ranks {
            let cause = format!("it ends the phase, and its {parts} {unit} are too few for {} generators", plan.ranks);
            return Err(PlanError::new(cause).within(format!("stream {:?}", stream.name)));
        }
    }
    Ok(())
}

/// Creates a Tokio runtime for the few requests to the target before the load. Fails if the process has run out of
/// file descriptors.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, PlanError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| PlanError::machine(format!("cannot start a runtime: {e}")))
}

/// Refuses a plan with an invalid number or name, no stream, two streams of one name, an unknown operation, an end that
/// never comes, or options that contradict each other. Names have ASCII letters, digits, `_`, `-` and `.`. The forms of
/// the operations are not checked here.
fn check(plan: &Plan) -> Result<(), PlanError> {
    let fail = |message: String| Err(PlanError::new(message));
    if plan.ranks == 0 || plan.threads == 0 || plan.rank >= plan.ranks {
        return fail(format!("rank {} of {} with {} threads does not exist", plan.rank, plan.ranks, plan.threads));
    }
    if let Some(Tracing { share, .. }) = plan.trace
        && !(share > 0.0 && share <= 1.0)
    {
        return fail(format!("trace: a share of {share} samples nothing: give more than 0, up to 1"));
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
        let within = |message: String| Err(PlanError::new(message).within(format!("stream {:?}", stream.name)));
        if !names.insert(&stream.name) {
            return within("the name is taken by another stream of this phase".into());
        }
        if [stream.mix.is_empty(), stream.journey.is_empty(), stream.steps.is_empty()].map(u8::from).iter().sum::<u8>()
            != 2
        {
            return within("it needs exactly one of mix, journey and steps".into());
        }
        users::check(stream).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
        let steps = stream.journey.iter().map(|step| &step.operation).chain(users::operations(&stream.steps));
        let steps = steps.map(|name| (name, 1.0));
        for (operation, weight) in stream.mix.iter().map(|(name, weight)| (name, *weight)).chain(steps) {
            if !plan.operations.contains_key(operation) {
                return within(format!("unknown operation {operation:?}"));
            }
            if !(weight > 0.0 && weight.is_finite()) {
                return within(format!("operation {operation:?} has weight {weight}: give more than 0"));
            }
        }
        for time in stream.journey.iter().map(|step| step.think_time).chain(users::think_times(&stream.steps)) {
            check_think(time).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
        }
        if stream.order == MixOrder::Permuted
            && (stream.mix.is_empty() || !matches!(stream.pacing, Pacing::Closed { .. }))
        {
            return within("a permuted order requires a mix in a closed loop".into());
        }
        if stream.order == MixOrder::Together {
            check_group(stream).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
        }
        match stream.pacing {
            Pacing::Closed { clients: Level::Constant(clients), .. } if clients < 1.0 => {
                return within(format!("{clients} clients send nothing: give 1 or more"));
            }
            Pacing::Closed { clients: Level::Stages { repeats: true, .. }, .. } => {
                return within("repeats requires a rate: a number of clients cannot repeat".into());
            }
            Pacing::Closed { think_time, .. } | Pacing::Users { think_time, .. } => {
                check_think(think_time).map_err(|e| e.within(format!("stream {:?}", stream.name)))?;
            }
            Pacing::Open { rate: Level::Constant(rate), .. } if !(rate > 0.0 && rate <= 1e9) => {
                return within(format!("rate of {rate} a second: give more than 0, up to 1e9"));
            }
            Pacing::Open { max_in_flight: 0, .. } => return within("max_in_flight of 0 drops everything".into()),
            Pacing::Open { .. } | Pacing::Source { .. } => {}
        }
        match stream.stop {
            Stop::Duration(Duration::ZERO) => return within("duration of 0 s: give more than 0".into()),
            Stop::Requests(0) => return within("0 requests: give 1 or more".into()),
            _ => {}
        }
    }
    for name in &plan.ends_with {
        match plan.streams.iter().find(|stream| stream.name == *name) {
            None => return fail(format!("the phase ends with the unknown stream {name:?}")),
            // With several such streams, the others may end the phase.
            Some(stream) if matches!(stream.stop, Stop::Ended) && plan.ends_with.len() == 1 => {
                return fail(format!("the phase ends with the stream {name:?}, which ends with the phase"));
            }
            Some(_) => {}
        }
    }
    let endless = |stream: &Stream| matches!(stream.stop, Stop::Ended);
    if plan.streams.iter().any(endless) && (plan.ends_with.is_empty() || plan.streams.iter().all(endless)) {
        return fail("a stream ends with the phase, and no stream ends the phase".into());
    }
    let timed = plan.streams.iter().flat_map(|stream| users::timed(&stream.steps));
    for name in plan.operations.keys().chain(names).chain([&plan.phase]).chain(timed) {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
            return fail(format!("{name:?} is not a valid name: use letters, digits, '_', '-' and '.'"));
        }
    }
    Ok(())
}

/// Refuses a group outside an open loop, with weights that are not whole, or above the maximum in flight.
fn check_group(stream: &Stream) -> Result<(), PlanError> {
    let fail = |cause: String| Err(PlanError::new(cause));
    let Pacing::Open { max_in_flight, .. } = stream.pacing else {
        return fail("operations that start together require a rate: remove the order, or use a rate".into());
    };
    let weights: Vec<f64> = stream.mix.iter().map(|(_, weight)| *weight).collect();
    let group = permuted_mix::places(&weights).map_err(PlanError::new)?.len() as u64;
    match group {
        0 => fail("operations that start together require a mix".into()),
        group if group > max_in_flight => fail(format!(
            "max_in_flight of {max_in_flight} drops every group of {group} requests: give {group} or more"
        )),
        _ => Ok(()),
    }
}

/// Refuses a uniform think time whose lower bound exceeds the upper one.
fn check_think(time: Think) -> Result<(), PlanError> {
    match time {
        Think::Drawn(ThinkDraw::Uniform(low, high)) if low > high => {
            Err(PlanError::new(format!("think time between {low:?} and {high:?}: give the lower bound first")))
        }
        _ => Ok(()),
    }
}
