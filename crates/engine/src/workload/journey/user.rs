//! State of a user: position in the journey, draws so far, simulated time and captured values.

use std::time::{Duration, Instant};

use super::{Check, DEPTH, Instruction, Journey, TIMED, bit};
use crate::pacing::schedule::{salt, think};
use crate::plan::{Missing, Think};
use crate::util::calendar::DAY;
use crate::util::draw::{Draw, LOOPS};
use crate::util::error_class::ErrorClass;
use crate::workload::variables::Captured;

/// After this many instructions without a wait, a user yields to others of its thread.
const ORDERS: usize = 1000;
/// Delay before the next journey after one without requests.
const PAUSE: Duration = Duration::from_millis(100);
const HOUR: i64 = DAY / 24;

/// Constant context of a stream's users.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Their journey.
    pub journey: &'a Journey,
    /// The time between journeys.
    pub think_time: Think,
    /// Time between the starts of a user's journeys; 0 for none.
    pub pacing: Duration,
    /// The run's seed.
    pub seed: u64,
    /// The stream's key.
    pub key: u64,
    /// Start of the load.
    pub start: Instant,
}

/// A user in a journey.
#[derive(Debug, Default)]
pub struct User {
    /// Its number over all generators.
    pub number: u64,
    /// Its captured values.
    pub memory: Captured,
    /// Its simulated time, milliseconds since 1970.
    pub instant: i64,
    at: u32,
    /// Number of draws so far.
    drawn: u32,
    round: u32,
    loops: [u32; DEPTH],
    /// See [`Draw::passes`].
    passes: [u32; LOOPS],
    /// Start of each open timed group, nanoseconds since the load began.
    began: [u64; TIMED],
    /// Error classes of failed requests in each timed group, as a bit set.
    failures: [u8; TIMED],
    /// Start of its journey, nanoseconds since the load began.
    pub journey_began: u64,
    /// Error class of its last request, as a bit set of one; 0 for a success.
    failed: u8,
    /// Whether it has sent a request in this journey.
    asked: bool,
    /// Consecutive requests that were not sent.
    pub unsent: u8,
}

/// Next action of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At the time given, send a request or continue the journey.
    Due(Instant),
    /// Wait until the shared clock reaches this time.
    Park(i64),
    /// All journeys are finished.
    Through,
}

/// A finished timed group of steps.
#[derive(Clone, Copy, Debug)]
pub struct TimedSteps {
    /// Number of the user.
    pub user: u64,
    /// Its index in the recorder.
    pub slot: usize,
    /// When the user was due at the first step.
    pub began: Instant,
    /// When the last step ended, without the think time after it.
    pub done: Instant,
    /// Error class of a failed request in the group, if any.
    pub failed: Option<ErrorClass>,
}

/// A request that a user is about to send.
#[derive(Clone, Copy, Debug)]
pub struct UserRequest {
    /// Index of the choice in the stream's plan.
    pub choice: usize,
    /// Key of its draws.
    pub draw: Draw,
    /// The think time after it.
    pub think_time: Think,
    /// Reaction to a missing captured value.
    pub missing: Missing,
}

impl User {
    /// Creates user number `number` of a stream, before its first step.
    pub fn new(number: u64, journey: &Journey) -> Self {
        Self { number, instant: journey.clock.map_or(0, |clock| clock.from), ..Self::default() }
    }

    /// Runs the journey at `now` up to the next request or wait, and returns that; after 1,000 instructions without
    /// one, returns that the user is due. `due`: end of the current think time. Calls `take` with each finished timed
    /// group. `paced` returns the start of the next journey from the start and the end of a finished one.
    pub fn advance(
        &mut self,
        scene: &Scene,
        now: Instant,
        mut due: Instant,
        mut take: impl FnMut(TimedSteps),
        mut paced: impl FnMut(Instant, Instant) -> Instant,
    ) -> Next {
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
                        // Think before waiting for the clock.
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
                Instruction::Close { depth, slot } => {
                    let began = scene.start + Duration::from_nanos(self.began[*depth]);
                    if began > now {
                        // The group had no request, and begins with the end of the current think time.
                        return Next::Due(due);
                    }
                    // The think time after the last answer is not part of the group.
                    take(self.timed(scene, *depth, *slot, due.min(now)));
                }
                Instruction::Leave => {
                    self.give_up(scene, now, &mut take);
                    self.round += 1;
                    if !scene.pacing.is_zero() {
                        due = paced(scene.start + Duration::from_nanos(self.journey_began), due);
                    }
                    if journey.rounds.is_some_and(|rounds| u64::from(self.round) >= rounds) {
                        return Next::Through;
                    }
                    next = 0;
                    due += self.think(scene, &scene.think_time);
                    self.journey_began = due.saturating_duration_since(scene.start).as_nanos() as u64;
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

    /// Returns whether the user's next instruction is a request.
    pub fn asks(&self, journey: &Journey) -> bool {
        matches!(journey.directives[self.at as usize], Instruction::Ask { .. })
    }

    /// Returns the index of the operation that the user sends next, in the stream's plan; `None` if its next
    /// instruction is not a request.
    pub fn wants(&self, journey: &Journey) -> Option<usize> {
        match journey.directives[self.at as usize] {
            Instruction::Ask { choice, .. } => Some(choice),
            _ => None,
        }
    }

    /// Takes the request that the user is at, and moves to the next instruction; `None` if it is not at a request.
    pub fn ask(&mut self, scene: &Scene) -> Option<UserRequest> {
        let Instruction::Ask { choice, think_time, missing } = scene.journey.directives[self.at as usize] else {
            return None;
        };
        let draw = self.draw(scene);
        self.drawn = self.drawn.wrapping_add(1);
        self.at += 1;
        Some(UserRequest { choice, draw, think_time, missing })
    }

    /// Records the result of the user's last request; `failed`: its error class, or `None` for a success.
    pub fn answered(&mut self, failed: Option<ErrorClass>) {
        self.asked = true;
        self.failed = failed.map_or(0, bit);
        self.failures.iter_mut().for_each(|set| *set |= self.failed);
    }

    /// Returns whether its last request failed to write. A failed visibility check is not a failed write.
    pub fn write_failed(&self) -> bool {
        self.failed & !bit(ErrorClass::Unseen) != 0
    }

    /// Moves the user to the instruction that ends its journey. Calls `take` with each timed group that it gives up
    /// after a failed request; it gives them up at `now`.
    pub fn leave(&mut self, scene: &Scene, now: Instant, take: impl FnMut(TimedSteps)) {
        self.give_up(scene, now, take);
        // The last instruction of each journey is to leave.
        self.at = scene.journey.directives.len() as u32 - 1;
    }

    /// Calls `take` with each timed group around the user's next instruction in which a request failed. `now`: the end
    /// of these groups, which the user gives up.
    fn give_up(&self, scene: &Scene, now: Instant, mut take: impl FnMut(TimedSteps)) {
        // Groups that begin and end after the instruction, by depth.
        let mut later = [0_u32; TIMED];
        for instruction in &scene.journey.directives[self.at as usize..] {
            match instruction {
                Instruction::Open { depth } => later[*depth] += 1,
                Instruction::Close { depth, .. } if later[*depth] > 0 => later[*depth] -= 1,
                Instruction::Close { depth, slot } if self.failures[*depth] != 0 => {
                    take(self.timed(scene, *depth, *slot, now));
                }
                _ => {}
            }
        }
    }

    /// Returns the timed group at a depth, which is recorded in `slot` and ends at `done`.
    fn timed(&self, scene: &Scene, depth: usize, slot: usize, done: Instant) -> TimedSteps {
        let began = scene.start + Duration::from_nanos(self.began[depth]);
        let failed = ErrorClass::ALL.into_iter().find(|class| self.failures[depth] & bit(*class) != 0);
        TimedSteps { user: self.number, slot, began, done, failed }
    }

    /// Draws a think time; a random one takes the user's next draw.
    fn think(&mut self, scene: &Scene, time: &Think) -> Duration {
        if let Think::Constant(time) = time {
            return *time;
        }
        let draw = self.draw(scene);
        self.drawn = self.drawn.wrapping_add(1);
        think(time, &draw)
    }

    /// Returns the key of its next draw: a function of the seed, the stream, its number and the number of
    /// draws.
    fn draw(&self, scene: &Scene) -> Draw {
        Draw {
            iteration: u64::from(self.round) * scene.journey.users + self.number,
            user: self.number,
            instant: self.instant,
            passes: self.passes,
            ..Draw::new(scene.seed, scene.key, (self.number << 32) | u64::from(self.drawn))
        }
    }

    /// Returns whether a test of the user's last request, captured values or simulated time holds; false for a missing
    /// value.
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
