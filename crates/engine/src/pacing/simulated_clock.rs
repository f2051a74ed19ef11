//! A simulated clock that all users of a stream share: it stands until each of them waits for it, and then goes to the
//! least instant that any of them waits for. So the slowest user holds it back.
//!
//! Over several ranks nobody sees all users. Each rank tells, with its seconds, how many of its users go on and what
//! the others wait for ([`ClockState`]); rank 0 finds out from the sum when all of them wait, and orders the next step,
//! which each rank makes when it is told. What costs a moment on one rank therefore costs up to a second on several.
//!
//! Users that wait are counted by the instant that they wait for. Whoever waits last moves the clock, and with it
//! counts those who go on as running, before any of them runs: none can wait again for a clock that has not yet let the
//! others go.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The clock of one stream.
#[derive(Debug)]
pub struct SimulatedClock {
    clock: Mutex<Clock>,
    /// Rings for each worker when the clock has moved.
    wakers: Box<[Notify]>,
}

/// The latest step of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// How many steps there were up to it: a meeting does not change what the clock shows.
    pub number: u64,
    /// What the clock shows since then.
    pub to: i64,
    /// When it was.
    pub at: Instant,
}

#[derive(Debug)]
struct Clock {
    moved: Option<Move>,
    running: u64,
    waiting: BTreeMap<i64, u64>,
    /// Whether it moves by orders alone.
    ordered: bool,
}

/// How a clock's users stand on a rank, or on several; the default is of a stream whose users share no clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// The least and the greatest number of the latest step on these ranks.
    pub steps: (u64, u64),
    /// Users who do not wait.
    pub running: u64,
    /// The least instant that one waits for.
    pub least: Option<i64>,
}

impl ClockState {
    /// How those of both stand.
    pub fn and(self, other: Self) -> Self {
        Self {
            steps: (self.steps.0.min(other.steps.0), self.steps.1.max(other.steps.1)),
            running: self.running + other.running,
            least: self.least.into_iter().chain(other.least).min(),
        }
    }

    /// The next step after number `last`: where the clock goes, if all have made that one and wait again.
    pub fn next(self, last: u64) -> Option<i64> {
        self.least.filter(|_| self.running == 0 && self.steps == (last, last))
    }
}

impl SimulatedClock {
    /// The clock of `users` of this process, all of whom are about to walk, on its workers. With `ordered` there are others
    /// on other ranks, and it moves when it is told.
    pub fn new(users: u64, workers: u64, ordered: bool) -> Self {
        let clock = Clock { moved: None, running: users, waiting: BTreeMap::new(), ordered };
        Self { clock: Mutex::new(clock), wakers: (0..workers).map(|_| Notify::new()).collect() }
    }

    /// A user waits until the clock shows `until`.
    pub fn park(&self, until: i64) {
        let mut clock = self.lock();
        *clock.waiting.entry(until).or_default() += 1;
        self.one_less(clock);
    }

    /// A user is through.
    pub fn leave(&self) {
        self.one_less(self.lock());
    }

    /// The latest step of the clock; `None` if it was never moved.
    pub fn latest(&self) -> Option<Move> {
        self.lock().moved
    }

    /// Rings when the clock has moved since the worker heard it last.
    pub async fn moved(&self, worker: usize) {
        self.wakers[worker].notified().await;
    }

    fn one_less(&self, mut clock: MutexGuard<Clock>) {
        clock.running -= 1;
        if clock.running > 0 || clock.ordered {
            return;
        }
        if let Some((&until, _)) = clock.waiting.first_key_value() {
            let number = clock.number() + 1;
            self.step(clock, number, until);
        }
    }

    fn step(&self, mut clock: MutexGuard<Clock>, number: u64, to: i64) {
        clock.running = clock.waiting.remove(&to).unwrap_or(0);
        clock.moved = Some(Move { number, to, at: Instant::now() });
        drop(clock);
        self.wakers.iter().for_each(Notify::notify_one);
    }

    /// Makes the step of that number, unless it was made.
    pub fn apply(&self, number: u64, to: i64) {
        let clock = self.lock();
        if number > clock.number() {
            self.step(clock, number, to);
        }
    }

    /// How the users of this process stand.
    pub fn standing(&self) -> ClockState {
        let clock = self.lock();
        let number = clock.number();
        let least = clock.waiting.first_key_value().map(|(until, _)| *until);
        ClockState { steps: (number, number), running: clock.running, least }
    }

    fn lock(&self) -> MutexGuard<'_, Clock> {
        // Whoever panicked has left a count behind that is whole.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock {
    /// The number of its latest step.
    fn number(&self) -> u64 {
        self.moved.map_or(0, |last| last.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_of_several_ranks_moves_when_all_wait_and_it_is_told() {
        let ranks = [SimulatedClock::new(2, 1, true), SimulatedClock::new(1, 1, true), SimulatedClock::new(0, 1, true)];
        let sum = || ranks.iter().map(SimulatedClock::standing).reduce(ClockState::and).unwrap();
        ranks[0].park(20);
        ranks[1].park(15);
        assert_eq!(sum().next(0), None, "one user of the first rank goes on");
        ranks[0].leave();
        let standing = sum();
        assert_eq!(standing, ClockState { steps: (0, 0), running: 0, least: Some(15) });
        assert_eq!((standing.next(0), standing.next(1)), (Some(15), None));
        ranks[0].apply(1, 15);
        assert_eq!(sum().next(1), None, "the others were not told yet");
        ranks[1..].iter().for_each(|rank| rank.apply(1, 15));
        ranks[1].apply(1, 15);
        assert_eq!(sum().next(1), None, "the user of the second rank goes on");
        ranks[1].park(15);
        assert_eq!(sum().next(1), Some(15), "a meeting of one");
        ranks.iter().for_each(|rank| rank.apply(2, 15));
        ranks[1].leave();
        assert_eq!(sum().next(2), Some(20));
    }

    #[test]
    fn the_clock_goes_to_the_least_instant_when_the_last_user_waits() {
        let simulated_clock = SimulatedClock::new(3, 1, false);
        let latest = || simulated_clock.latest().map(|step| (step.number, step.to));
        simulated_clock.park(20);
        simulated_clock.park(15);
        assert_eq!(latest(), None);
        simulated_clock.park(20);
        assert_eq!(latest(), Some((1, 15)));
        // Only the user of 15 goes on; when it waits, the others do.
        simulated_clock.park(15);
        assert_eq!(latest(), Some((2, 15)), "a pause of 0 is a meeting of those who run");
        simulated_clock.park(20);
        assert_eq!(latest(), Some((3, 20)));
        simulated_clock.leave();
        simulated_clock.leave();
        simulated_clock.park(21);
        assert_eq!(latest(), Some((4, 21)));
        simulated_clock.leave();
        assert_eq!(latest(), Some((4, 21)));
    }
}
