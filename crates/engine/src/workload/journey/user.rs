//! A user: its place in the journey, what it has drawn so far, its instant of the simulated clock, and its memory.

use std::time::{Duration, Instant};

use super::{Check, DEPTH, Instruction, Journey, TIMED, bit};
use crate::pacing::schedule::{salt, think};
use crate::plan::{Missing, Think};
use crate::util::calendar::DAY;
use crate::util::draw::{Draw, LOOPS};
use crate::util::error_class::ErrorClass;
use crate::workload::variables::Captured;

/// After this many orders without a wait a user lets others of its thread go on.
const ORDERS: usize = 1000;
/// A user whose journey asked for nothing begins the next one after this long.
const PAUSE: Duration = Duration::from_millis(100);
const HOUR: i64 = DAY / 24;

/// What does not change while users walk.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// What they do.
    pub journey: &'a Journey,
    /// The time between journeys.
    pub think_time: Think,
    /// The run's seed.
    pub seed: u64,
    /// The stream's key.
    pub key: u64,
    /// When the load begins.
    pub start: Instant,
}

/// Someone who walks a journey.
#[derive(Debug, Default)]
pub struct User {
    /// Its number over all generators.
    pub number: u64,
    /// What it knows from answers.
    pub memory: Captured,
    /// Its instant of the simulated clock, milliseconds since 1970.
    pub instant: i64,
    at: u32,
    /// How many things it has drawn.
    drawn: u32,
    round: u32,
    loops: [u32; DEPTH],
    /// See [`Draw::passes`].
    passes: [u32; LOOPS],
    /// When it began the steps whose time is taken together, nanoseconds since the load began.
    began: [u64; TIMED],
    /// How requests failed among those steps, as a set of classes.
    failures: [u8; TIMED],
    /// How its last request failed, as a set of one class; 0 for a success.
    failed: u8,
    /// Whether it has asked for anything in this journey.
    asked: bool,
    /// Requests in a row that could not be sent.
    pub unsent: u8,
}

/// What a user does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is due then: it asks, or goes on in its journey.
    Due(Instant),
    /// It waits until the shared clock shows this.
    Park(i64),
    /// It has walked all its journeys.
    Through,
}

/// Steps whose time was taken together, and that are over.
#[derive(Clone, Copy, Debug)]
pub struct TimedSteps {
    /// Whose they were.
    pub user: u64,
    /// Their place in the recorder.
    pub slot: usize,
    /// When the user was due at the first of them.
    pub began: Instant,
    /// When it was through with the last.
    pub done: Instant,
    /// How one of their requests failed, if one did.
    pub failed: Option<ErrorClass>,
}

/// A request that a user is about to send.
#[derive(Clone, Copy, Debug)]
pub struct UserRequest {
    /// The number of the choice in the stream's course.
    pub choice: usize,
    /// What it carries.
    pub draw: Draw,
    /// The time after it.
    pub think_time: Think,
    /// What becomes of it without a value that it needs.
    pub missing: Missing,
}

impl User {
    /// User number `number`, before its first step.
    pub fn new(number: u64, journey: &Journey) -> Self {
        Self { number, instant: journey.clock.map_or(0, |clock| clock.from), ..Self::default() }
    }

    /// Goes on, at `now`, to the next request or wait. `due`: it thinks until then. `take` records steps that were timed
    /// together.
    pub fn advance(&mut self, scene: &Scene, now: Instant, mut due: Instant, mut take: impl FnMut(TimedSteps)) -> Next {
        let journey = scene.journey;
        for _ in 0..ORDERS {
            let mut next = self.at as usize + 1;
            match &journey.directives[self.at as usize] {
                Instruction::Ask { .. } => return Next::Due(due),
                Instruction::Think(time) => due += self.think(scene, time),
                Instruction::Pause(time) => {
                    let scale = journey.clock.and_then(|clock| clock.scale);
                    if let (Some(scale), Some(clock)) = (scale, journey.clock) {
                        self.instant += time;
                        let real = (self.instant - clock.from) as f64 / 1000.0 / scale;
                        due = due.max(scene.start + Duration::from_secs_f64(real.min(crate::plan::NEVER)));
                    } else if due > now {
                        // It thinks before it stands still.
                        return Next::Due(due);
                    } else {
                        self.at = next as u32;
                        return Next::Park(self.instant + time);
                    }
                }
                Instruction::Begin { depth } => self.loops[*depth] = 0,
                Instruction::Loop { depth, times, until, pass, after } => {
                    if self.loops[*depth] == *times || until.as_ref().is_some_and(|check| self.holds(check)) {
                        next = *after;
                    } else {
                        if let Some(pass) = pass {
                            self.passes[*pass] = self.loops[*depth];
                        }
                        self.loops[*depth] += 1;
                    }
                }
                Instruction::Choose(ways) => {
                    let draw = self.draw(scene).unit(salt::MIX);
                    self.drawn = self.drawn.wrapping_add(1);
                    next = ways.iter().find(|(below, _)| draw < *below).unwrap_or(&ways[ways.len() - 1]).1;
                }
                Instruction::Unless(check, place) => {
                    if !self.holds(check) {
                        next = *place;
                    }
                }
                Instruction::Go(place) => next = *place,
                Instruction::Open { depth } => {
                    self.began[*depth] = due.saturating_duration_since(scene.start).as_nanos() as u64;
                    self.failures[*depth] = 0;
                }
                Instruction::Close { .. } if due > now => return Next::Due(due),
                Instruction::Close { depth, slot } => {
                    let began = scene.start + Duration::from_nanos(self.began[*depth]);
                    let set = self.failures[*depth];
                    let failed = ErrorClass::ALL.into_iter().find(|class| set & bit(*class) != 0);
                    take(TimedSteps { user: self.number, slot: *slot, began, done: due, failed });
                }
                Instruction::Leave => {
                    self.round += 1;
                    if journey.rounds.is_some_and(|rounds| u64::from(self.round) >= rounds) {
                        return Next::Through;
                    }
                    next = 0;
                    due += self.think(scene, &scene.think_time);
                    if !std::mem::take(&mut self.asked) {
                        self.at = 0;
                        return Next::Due(due.max(now + PAUSE));
                    }
                }
            }
            self.at = next as u32;
        }
        Next::Due(due)
    }

    /// Whether it is about to ask, rather than to go on in its journey.
    pub fn asks(&self, journey: &Journey) -> bool {
        matches!(journey.directives[self.at as usize], Instruction::Ask { .. })
    }

    /// The choice that it is about to ask for.
    pub fn wants(&self, journey: &Journey) -> Option<usize> {
        match journey.directives[self.at as usize] {
            Instruction::Ask { choice, .. } => Some(choice),
            _ => None,
        }
    }

    /// Takes the request at which it stands; `None` if it stands at none.
    pub fn ask(&mut self, scene: &Scene) -> Option<UserRequest> {
        let Instruction::Ask { choice, think_time, missing } = scene.journey.directives[self.at as usize] else {
            return None;
        };
        let draw = self.draw(scene);
        self.drawn = self.drawn.wrapping_add(1);
        self.at += 1;
        Some(UserRequest { choice, draw, think_time, missing })
    }

    /// Its request was answered, or failed.
    pub fn answered(&mut self, failed: Option<ErrorClass>) {
        self.asked = true;
        self.failed = failed.map_or(0, bit);
        self.failures.iter_mut().for_each(|set| *set |= self.failed);
    }

    /// Whether its last request wrote nothing: it failed, and not by what it looked for.
    pub fn write_failed(&self) -> bool {
        self.failed & !bit(ErrorClass::Unseen) != 0
    }

    /// The rest of its journey is not walked.
    pub fn leave(&mut self, journey: &Journey) {
        // The last order of each journey is to leave.
        self.at = journey.directives.len() as u32 - 1;
    }

    fn think(&mut self, scene: &Scene, time: &Think) -> Duration {
        if let Think::Constant(time) = time {
            return *time;
        }
        let draw = self.draw(scene);
        self.drawn = self.drawn.wrapping_add(1);
        think(time, &draw)
    }

    /// What it draws next: a function of the seed, the stream, its number and how much it has drawn.
    fn draw(&self, scene: &Scene) -> Draw {
        Draw {
            iteration: u64::from(self.round) * scene.journey.users + self.number,
            user: self.number,
            instant: self.instant,
            passes: self.passes,
            ..Draw::new(scene.seed, scene.key, (self.number << 32) | u64::from(self.drawn))
        }
    }

    fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Failed(set) => self.failed & set != 0,
            Check::Known(slot) => self.memory.has(*slot),
            Check::Hours(from, to) => (*from..*to).contains(&(self.instant.rem_euclid(DAY) / HOUR)),
            Check::Value { slot, at_least, below, equals } => {
                let Some(text) = self.memory.text(*slot) else { return false };
                let number = || std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<f64>().ok());
                at_least.is_none_or(|bound| number().is_some_and(|number| number >= bound))
                    && below.is_none_or(|bound| number().is_some_and(|number| number < bound))
                    && equals.as_ref().is_none_or(|wanted| wanted.as_bytes() == text)
            }
        }
    }
}
