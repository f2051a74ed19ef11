//! Journeys of users, compiled from the steps of a plan into a flat program that runs without allocation.

pub mod user;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::plan::{Clock, Comparison, Missing, PlanError, Step, Test, Think};
use crate::util::calendar;
use crate::util::error_class::ErrorClass;
use crate::util::suggestions::unknown;
use crate::workload::variables::Variables;

/// Maximum nesting of loops.
pub const DEPTH: usize = 4;
/// Maximum nesting of timed groups.
pub const TIMED: usize = 2;
/// Maximum length of a pause, in simulated seconds: a thousand years.
const LONGEST_PAUSE: f64 = 3.2e10;

/// Compiled journey of a stream's users.
#[derive(Debug)]
pub struct Journey {
    /// Instructions, executed in order unless one jumps.
    pub(crate) directives: Vec<Instruction>,
    /// The simulated clock, if any.
    pub clock: Option<Time>,
    /// Number of users, over all generators.
    pub users: u64,
    /// Number of journeys per user; `None` to repeat until the stream ends.
    pub rounds: Option<u64>,
}

/// A stream's simulated clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// Start, milliseconds since 1970.
    pub from: i64,
    /// Simulated milliseconds per millisecond; `None` if users share the clock.
    pub scale: Option<f64>,
}

/// One instruction of the program. Jump targets are indices into it.
#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    /// Send a request of this choice of the stream's plan.
    Ask { choice: usize, think_time: Think, missing: Missing },
    /// Wait in real time.
    Think(Think),
    /// Wait for this many milliseconds of simulated time; 0 waits for the other users.
    Pause(i64),
    /// Start the loop of this depth.
    Begin { depth: usize },
    /// Jump to `after` if all passes are done or the condition holds. Otherwise count a pass, also in the
    /// loop's variable.
    Loop { depth: usize, times: u32, until: Option<Check>, pass: Option<usize>, after: usize },
    /// Jump to the first target whose bound exceeds a draw.
    Choose(Box<[(f64, usize)]>),
    /// Jump unless the condition holds.
    Unless(Check, usize),
    /// Jump.
    Go(usize),
    /// Start timing a group at this depth.
    Open { depth: usize },
    /// Stop timing the group at this depth and record it in the slot.
    Close { depth: usize, slot: usize },
    /// End the journey.
    Leave,
}

/// A compiled condition.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// The last request failed with a class of this set.
    Failed(u8),
    /// The slot has a value.
    Known(usize),
    /// The value in the slot satisfies the bounds.
    Value { slot: usize, at_least: Option<f64>, below: Option<f64>, equals: Option<Box<str>> },
    /// The simulated hour of the day is in the range.
    Hours(i64, i64),
}

/// Compiles the simulated clock of a plan. Refuses an invalid date, and a scale that is not above 0 and at most 1e9.
pub fn time(clock: &Clock) -> Result<Time, PlanError> {
    let from = calendar::milliseconds(&clock.from).ok_or_else(|| {
        PlanError::new(format!(
            "clock.from must be a time such as 2018-01-01 or 2018-01-01T12:30:00; got {:?}",
            clock.from
        ))
    })?;
    match clock.scale {
        Some(scale) if !(scale > 0.0 && scale <= 1e9) => {
            Err(PlanError::new(format!("a time scale of {scale}: give more than 0, up to 1e9")))
        }
        scale => Ok(Time { from, scale }),
    }
}

/// Look-ups for the names used in steps.
pub(crate) struct Places<'a> {
    /// Index of an operation among the stream's choices.
    pub choice: &'a dyn Fn(&str) -> usize,
    /// Index of a timed group in the recorder.
    pub slot: &'a dyn Fn(&str) -> usize,
}

/// Compiles a journey's steps into instructions. `operations` and `variables` of the plan are looked up by name.
/// Refuses a journey without a request, a clock without a pause, and steps that are invalid or that the stream does not
/// support.
pub(crate) fn compile(
    steps: &[Step],
    clock: Option<Time>,
    (operations, variables): (&BTreeMap<String, Value>, &Variables),
    places: &Places,
) -> Result<Vec<Instruction>, PlanError> {
    let counted = Vec::new();
    let mut compiler = Compiler { directives: Vec::new(), clock, operations, variables, counted, places, timed: 0 };
    compiler.steps(steps, 0)?;
    compiler.directives.push(Instruction::Leave);
    let directives = compiler.directives;
    if !directives.iter().any(|order| matches!(order, Instruction::Ask { .. })) {
        return Err(PlanError::new("the journey sends no request: add an operation"));
    }
    let pauses = directives.iter().any(|order| matches!(order, Instruction::Pause(time) if *time > 0));
    if clock.is_some() && !pauses {
        return Err(PlanError::new("the journey never advances the simulated clock: add a pause, or remove the clock"));
    }
    Ok(directives)
}

struct Compiler<'a> {
    directives: Vec<Instruction>,
    clock: Option<Time>,
    operations: &'a BTreeMap<String, Value>,
    variables: &'a Variables,
    /// Counter indices of the enclosing loops.
    counted: Vec<usize>,
    places: &'a Places<'a>,
    /// Current nesting of timed groups.
    timed: usize,
}

impl Compiler<'_> {
    /// Compiles steps in order, within `depth` loops; refuses one that is invalid or that its stream does not support.
    fn steps(&mut self, steps: &[Step], depth: usize) -> Result<(), PlanError> {
        steps.iter().try_for_each(|step| self.step(step, depth))
    }

    /// Appends the instructions of one step, within `depth` loops; refuses one that is invalid or that its stream does
    /// not support.
    fn step(&mut self, step: &Step, depth: usize) -> Result<(), PlanError> {
        match step {
            Step::Ask(ask) => {
                let loops = self.variables.loops(&self.operations[&ask.operation]);
                if let Some((_, name)) = loops.iter().find(|(place, _)| !self.counted.contains(place)) {
                    let cause = format!(
                        "its variable {name:?} counts a loop, and it does not stand in one with \"count: {name}\""
                    );
                    return Err(PlanError::new(cause).within(format!("operation {:?}", ask.operation)));
                }
                let choice = (self.places.choice)(&ask.operation);
                self.directives.push(Instruction::Ask { choice, think_time: ask.think_time, missing: ask.missing });
            }
            Step::Think(time) => self.directives.push(Instruction::Think(*time)),
            Step::Pause(seconds) => {
                if self.clock.is_none() {
                    return Err(PlanError::new(
                        "pause requires a simulated clock: give the stream a clock, or use think",
                    ));
                }
                if !(*seconds > 0.0 && *seconds <= LONGEST_PAUSE) {
                    return Err(PlanError::new(format!(
                        "a pause of {seconds} s: give more than 0, up to a thousand years"
                    )));
                }
                self.directives.push(Instruction::Pause((seconds * 1000.0).round().max(1.0) as i64));
            }
            Step::Together => {
                if self.clock.is_none_or(|clock| clock.scale.is_some()) {
                    return Err(PlanError::new("together requires a shared clock: remove the scale of the clock"));
                }
                self.directives.push(Instruction::Pause(0));
            }
            Step::Leave => self.directives.push(Instruction::Leave),
            Step::Repeat(repeat) => {
                if repeat.times == 0 || depth == DEPTH {
                    let why =
                        if repeat.times == 0 { "a loop of 0 times" } else { "loops are five deep: four are possible" };
                    return Err(PlanError::new(why));
                }
                let until = repeat.until.as_ref().map(|test| self.check(test)).transpose()?;
                let pass = repeat.count.as_ref().map(|name| self.variables.loop_slot(name)).transpose()?;
                if pass.is_some_and(|pass| self.counted.contains(&pass)) {
                    let cause = "two nested loops use the same variable as counter: give each its own";
                    return Err(PlanError::new(cause));
                }
                self.counted.extend(pass);
                self.directives.push(Instruction::Begin { depth });
                let head = self.directives.len();
                self.directives.push(Instruction::Loop { depth, times: repeat.times, until, pass, after: 0 });
                self.steps(&repeat.steps, depth + 1)?;
                self.counted.retain(|counted| Some(*counted) != pass);
                self.directives.push(Instruction::Go(head));
                let end = self.directives.len();
                if let Instruction::Loop { after, .. } = &mut self.directives[head] {
                    *after = end;
                }
            }
            Step::Choose(ways) => {
                let total: f64 = ways.iter().map(|way| way.weight).sum();
                if ways.is_empty() || ways.iter().any(|way| !(way.weight > 0.0 && way.weight.is_finite())) {
                    return Err(PlanError::new("choose needs branches with weights above 0"));
                }
                let at = self.directives.len();
                self.directives.push(Instruction::Leave);
                let (mut sum, mut places, mut exits) = (0.0, Vec::new(), Vec::new());
                for way in ways {
                    sum += way.weight / total;
                    places.push((sum, self.directives.len()));
                    self.steps(&way.steps, depth)?;
                    exits.push(self.directives.len());
                    self.directives.push(Instruction::Leave);
                }
                self.directives[at] = Instruction::Choose(places.into());
                let end = self.directives.len();
                exits.into_iter().for_each(|exit| self.directives[exit] = Instruction::Go(end));
            }
            Step::When(when) => {
                let check = self.check(&when.test)?;
                let at = self.directives.len();
                self.directives.push(Instruction::Leave);
                self.steps(&when.steps, depth)?;
                let exit = self.directives.len();
                self.directives.push(Instruction::Leave);
                self.directives[at] = Instruction::Unless(check, exit + 1);
                self.steps(&when.otherwise, depth)?;
                self.directives[exit] = Instruction::Go(self.directives.len());
            }
            Step::Timed(timed) => {
                if self.timed == TIMED {
                    return Err(PlanError::new(format!(
                        "{:?} is timed within two other groups: nest at most two",
                        timed.name
                    )));
                }
                let depth_of_time = self.timed;
                self.timed += 1;
                self.directives.push(Instruction::Open { depth: depth_of_time });
                self.steps(&timed.steps, depth)?;
                self.directives
                    .push(Instruction::Close { depth: depth_of_time, slot: (self.places.slot)(&timed.name) });
                self.timed -= 1;
            }
        }
        Ok(())
    }

    /// Compiles a test. Refuses an unknown error class, a variable that is not captured, an empty comparison, hours
    /// that do not ascend, and hours without a clock.
    fn check(&self, test: &Test) -> Result<Check, PlanError> {
        Ok(match test {
            Test::Failed(classes) if classes.is_empty() => Check::Failed(u8::MAX),
            Test::Failed(classes) => {
                let mut set = 0;
                for wanted in classes {
                    let names = ErrorClass::ALL.map(ErrorClass::name);
                    let class = ErrorClass::ALL.into_iter().find(|class| class.name() == wanted);
                    set |= bit(class.ok_or_else(|| PlanError::new(unknown("class of errors", wanted, names)))?);
                }
                Check::Failed(set)
            }
            Test::Known(name) => Check::Known(self.slot(name)?),
            Test::Value(Comparison { of, at_least, below, equals }) => {
                if at_least.is_none() && below.is_none() && equals.is_none() {
                    return Err(PlanError::new(format!("the test of {of:?} requires at_least, below or equals")));
                }
                let equals = equals.as_deref().map(Box::from);
                Check::Value { slot: self.slot(of)?, at_least: *at_least, below: *below, equals }
            }
            Test::Hours(from, to) => {
                if self.clock.is_none() || from >= to || *to > 24 {
                    let what = "hours requires a simulated clock, and two hours from 0 to 24 in ascending order";
                    return Err(PlanError::new(format!("[{from}, {to}]: {what}")));
                }
                Check::Hours(i64::from(*from), i64::from(*to))
            }
        })
    }

    /// Returns the memory slot of captured variable `name`; refuses an unknown name, and variables that are not
    /// captured.
    fn slot(&self, name: &str) -> Result<usize, PlanError> {
        let id = self.variables.find(name)?;
        let slot = self.variables.slot(id);
        slot.ok_or_else(|| PlanError::new(format!("variable {name:?} is not captured from answers")))
    }
}

/// Returns a set of error classes with only this one: a bit of the number.
pub(crate) fn bit(class: ErrorClass) -> u8 {
    1 << class as u8
}
