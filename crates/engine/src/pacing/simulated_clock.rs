//! Simulated clock shared by all users of a stream. It stands still until every user waits for it, then
//! advances to the earliest time that a user waits for. The slowest user thus holds it back.
//!
//! With several ranks, each rank reports its users' state ([`ClockState`]) every second. Rank 0 determines
//! from the sum when all users wait, and orders the next step. A step therefore takes up to a second instead
//! of a moment.
//!
//! Waiting users are counted by the time that they wait for. The last user to wait advances the clock and
//! counts the released users as running before any of them runs. No user can then wait again before the
//! others are released.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The clock of one stream.
#[derive(Debug)]
pub struct SimulatedClock {
    clock: Mutex<Clock>,
    /// Notified per worker when the clock has advanced.
    wakers: Box<[Notify]>,
}

/// The latest step of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the step. Steps are counted because a meeting of users does not change the time.
    pub number: u64,
    /// Simulated time since the step.
    pub to: i64,
    /// When the step took place.
    pub at: Instant,
}

#[derive(Debug)]
struct Clock {
    moved: Option<Move>,
    running: u64,
    waiting: BTreeMap<i64, u64>,
    /// Whether rank 0 orders the steps.
    ordered: bool,
}

/// State of a clock's users on one or several ranks. The default is for a stream without a shared clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockState {
    /// Minimum and maximum number of the latest step on these ranks.
    pub steps: (u64, u64),
    /// Number of users that do not wait.
    pub running: u64,
    /// The earliest time that a user waits for.
    pub least: Option<i64>,
}

impl ClockState {
    /// Combines two states of different ranks: lowest and highest step, sum of running users, and earliest time.
    pub fn and(self, other: Self) -> Self {
        Self {
            steps: (self.steps.0.min(other.steps.0), self.steps.1.max(other.steps.1)),
            running: self.running + other.running,
            least: self.least.into_iter().chain(other.least).min(),
        }
    }

    /// Returns the simulated time of step `last + 1`, ms since 1970: the earliest that a user waits for.
    /// `None` unless all ranks have made step `last` and all users wait.
    pub fn next(self, last: u64) -> Option<i64> {
        self.least.filter(|_| self.running == 0 && self.steps == (last, last))
    }
}

impl SimulatedClock {
    /// Creates the clock of `users` users of this process; all start as running. `workers`: threads to notify of
    /// steps. `ordered`: other ranks share the clock, and rank 0 orders its steps.
    pub fn new(users: u64, workers: u64, ordered: bool) -> Self {
        let clock = Clock { moved: None, running: users, waiting: BTreeMap::new(), ordered };
        Self { clock: Mutex::new(clock), wakers: (0..workers).map(|_| Notify::new()).collect() }
    }

    /// Registers a running user as waiting for the simulated time `until`, ms since 1970.
    /// Advances the clock if all users wait now, unless rank 0 orders the steps.
    pub fn park(&self, until: i64) {
        let mut clock = self.lock();
        *clock.waiting.entry(until).or_default() += 1;
        self.one_less(clock);
    }

    /// Removes a running user that has finished. Advances the clock if all others wait, unless rank 0 orders the steps.
    pub fn leave(&self) {
        self.one_less(self.lock());
    }

    /// Returns the latest step; `None` before the first.
    pub fn latest(&self) -> Option<Move> {
        self.lock().moved
    }

    /// Waits until the clock has advanced since the last call of worker number `worker`; returns at once if it has.
    /// Panics if `worker` is not a number of the clock's workers.
    pub async fn moved(&self, worker: usize) {
        self.wakers[worker].notified().await;
    }

    /// Counts one running user less. If none is left and rank 0 does not order the steps, makes the next step.
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

    /// Makes step `number`: sets the simulated time to `to`, ms since 1970, and notifies the workers.
    /// Counts the users that waited for exactly this time as running. Releases the lock.
    fn step(&self, mut clock: MutexGuard<Clock>, number: u64, to: i64) {
        clock.running = clock.waiting.remove(&to).unwrap_or(0);
        clock.moved = Some(Move { number, to, at: Instant::now() });
        drop(clock);
        self.wakers.iter().for_each(Notify::notify_one);
    }

    /// Makes step `number` to the simulated time `to`, ms since 1970, as rank 0 orders, unless it was made already.
    pub fn apply(&self, number: u64, to: i64) {
        let clock = self.lock();
        if number > clock.number() {
            self.step(clock, number, to);
        }
    }

    /// Returns the state of this process's users: the latest step, the running users and the earliest time waited for.
    pub fn standing(&self) -> ClockState {
        let clock = self.lock();
        let number = clock.number();
        let least = clock.waiting.first_key_value().map(|(until, _)| *until);
        ClockState { steps: (number, number), running: clock.running, least }
    }

    /// Locks the clock's state, also after a panic of another thread.
    fn lock(&self) -> MutexGuard<'_, Clock> {
        // After a panic the count is still consistent.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock {
    /// Returns the number of the latest step; 0 before the first.
    fn number(&self) -> u64 {
        self.moved.map_or(0, |last| last.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With several ranks, the next step needs all users to wait and all ranks to have made the last step.
    #[test]
    fn a_clock_of_several_ranks_moves_when_all_wait_and_know_the_step() {
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

    /// When all users wait, the clock advances to the earliest time that a user waits for.
    #[test]
    fn the_clock_goes_to_the_least_instant_when_the_last_user_waits() {
        let simulated_clock = SimulatedClock::new(3, 1, false);
        let latest = || simulated_clock.latest().map(|step| (step.number, step.to));
        simulated_clock.park(20);
        simulated_clock.park(15);
        assert_eq!(latest(), None);
        simulated_clock.park(20);
        assert_eq!(latest(), Some((1, 15)));
        // Only the user of 15 is released; when it waits again, the others are.
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
