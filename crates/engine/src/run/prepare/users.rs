//! Checks and compiles the journeys of users.

use std::time::Duration;

use crate::client::stream_plan::StreamPlan;
use crate::driver::{Context, Driver};
use crate::pacing::schedule::Stride;
use crate::pacing::simulated_clock::SimulatedClock;
use crate::plan::{Pacing, Plan, PlanError, Step, Stop, Stream, Think};
use crate::recording::slot::Slot;
use crate::workload::journey::{Journey, Places, compile, time};

/// Returns the names of the operations that steps contain, each once, in order of appearance.
pub fn operations(steps: &[Step]) -> Vec<&String> {
    let mut names = Vec::new();
    collect(steps, &mut names);
    names
}

/// Adds the operations of steps, including nested ones, to `names`, each once.
fn collect<'a>(steps: &'a [Step], names: &mut Vec<&'a String>) {
    for step in steps {
        match step {
            Step::Ask(ask) if !names.contains(&&ask.operation) => names.push(&ask.operation),
            Step::Repeat(repeat) => collect(&repeat.steps, names),
            Step::Choose(ways) => ways.iter().for_each(|way| collect(&way.steps, names)),
            Step::When(when) => {
                collect(&when.steps, names);
                collect(&when.otherwise, names);
            }
            Step::Timed(timed) => collect(&timed.steps, names),
            _ => {}
        }
    }
}

/// Returns the names of timed groups of steps, each once, in order of appearance; an outer group before the inner ones.
pub fn timed(steps: &[Step]) -> Vec<&String> {
    let mut names: Vec<&String> = Vec::new();
    for step in steps {
        let inside = match step {
            Step::Timed(together) => {
                let mut inside = timed(&together.steps);
                inside.insert(0, &together.name);
                inside
            }
            Step::Repeat(repeat) => timed(&repeat.steps),
            Step::Choose(ways) => ways.iter().flat_map(|way| timed(&way.steps)).collect(),
            Step::When(when) => [timed(&when.steps), timed(&when.otherwise)].concat(),
            _ => Vec::new(),
        };
        for name in inside {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns all think times of steps, including nested ones.
pub fn think_times(steps: &[Step]) -> Vec<Think> {
    let times = steps.iter().map(|step| match step {
        Step::Ask(ask) => vec![ask.think_time],
        Step::Think(time) => vec![*time],
        Step::Repeat(repeat) => think_times(&repeat.steps),
        Step::Choose(ways) => ways.iter().flat_map(|way| think_times(&way.steps)).collect(),
        Step::When(when) => [think_times(&when.steps), think_times(&when.otherwise)].concat(),
        Step::Timed(timed) => think_times(&timed.steps),
        Step::Pause(_) | Step::Together | Step::Leave => Vec::new(),
    });
    times.flatten().collect()
}

/// Refuses settings that only users support in a stream without users, and invalid settings of users.
pub fn check(stream: &Stream) -> Result<(), PlanError> {
    let fail = |what: String| Err(PlanError::new(what));
    let Pacing::Users { users, clients, .. } = stream.pacing else {
        return match (&stream.stop, stream.steps.is_empty(), stream.clock.is_some()) {
            (Stop::Journeys(_), ..) => fail("journeys requires users: give requests or a duration".into()),
            (_, false, _) | (_, _, true) => fail("steps and clock require users".into()),
            _ => Ok(()),
        };
    };
    if stream.steps.is_empty() {
        return fail("its users need a journey: give it steps".into());
    }
    if users == 0 || users > 1 << 31 || clients == 0 {
        return fail(format!("{users} users with {clients} clients: give 1 or more, up to 2147483648 users"));
    }
    match stream.stop {
        Stop::Journeys(0) => fail("0 journeys: give 1 or more".into()),
        Stop::Journeys(n) if n > u64::from(u32::MAX) => fail(format!("{n} journeys: give 4294967295 or fewer")),
        Stop::Requests(_) | Stop::Exhausted => {
            fail("journeys of users vary in their number of requests: give journeys or a duration".into())
        }
        _ => Ok(()),
    }
}

/// Refuses operations that use a loop's counter, in a stream without users.
fn refuse_loops(plan: &Plan, stream: &Stream, context: &Context) -> Result<(), PlanError> {
    let names = stream.mix.iter().map(|(name, _)| name).chain(stream.journey.iter().map(|step| &step.operation));
    for name in names {
        if let Some((_, variable)) = context.variables.loops(&plan.operations[name]).first() {
            let cause = format!("its variable {variable:?} counts a loop: it requires users");
            return Err(PlanError::new(cause).within(format!("operation {name:?}")));
        }
    }
    Ok(())
}

/// Returns how many of a stream's `users` belong to this process. `clients`: number of clients that they share.
fn users_here(plan: &Plan, users: u64, clients: u64) -> u64 {
    let shares = (0..plan.threads).map(|thread| Stride::new(plan.rank, plan.ranks, thread, plan.threads));
    shares.filter_map(|share| share.among(users.min(clients))).map(|share| share.count(users)).sum()
}

/// Compiles the journey of a stream's users into `stream_plan`. Returns the clock that the users share; `None` without
/// users or with a scaled clock. Refuses settings that users or several ranks do not support, and loop counters
/// without users. `together`: ranks exchange their state.
pub fn join<D: Driver>(
    plan: &Plan,
    stream: &Stream,
    stream_plan: &mut StreamPlan<D>,
    context: &Context,
    slots: &[Slot],
    together: bool,
) -> Result<Option<SimulatedClock>, PlanError> {
    let Pacing::Users { users, clients, over, .. } = stream.pacing else {
        refuse_loops(plan, stream, context)?;
        return Ok(None);
    };
    let clock = stream.clock.as_ref().map(time).transpose()?;
    let names = operations(&stream.steps);
    let place = |name: &str| names.iter().position(|other| *other == name).unwrap_or_default();
    let slot = |name: &str| {
        let place =
            slots.iter().position(|slot| slot.of_several && slot.stream == stream.name && slot.operation == name);
        place.unwrap_or_default()
    };
    let places = Places { choice: &place, slot: &slot };
    let directives = compile(&stream.steps, clock, (&plan.operations, &context.variables), &places)?;
    for name in &names {
        if let Some(variable) = context.variables.counts_requests(&plan.operations[*name]) {
            let cause = format!(
                "its variable {variable:?} counts the requests of the stream, and users go their own ways: give it \
                 per: iteration or per: user, or make it of one that has"
            );
            return Err(PlanError::new(cause).within(format!("operation {name:?}")));
        }
    }
    let shared = clock.is_some_and(|clock| clock.scale.is_none());
    if shared && plan.ranks > 1 && !together {
        let cause = "a shared clock requires ranks that communicate: give the clock a scale, or use one rank";
        return Err(PlanError::new(cause));
    }
    if shared && over > Duration::ZERO {
        return Err(PlanError::new("users with a shared clock start together: remove \"over\""));
    }
    let rounds = if let Stop::Journeys(rounds) = stream.stop { Some(rounds) } else { None };
    stream_plan.journey = Some(Journey { directives, clock, users, rounds });
    Ok(shared.then(|| SimulatedClock::new(users_here(plan, users, clients), plan.threads, together)))
}
