//! Counters: the number that each insert takes, and how many numbers are settled.
//!
//! An inserted record has the number of its insert among all inserts of the stream. The number is a pure
//! function of (seed, stream, k); see [`crate::workload::numbering`].
//!
//! The set of finished inserts depends on the answers, and is the only state that workers share while load
//! runs. Each worker publishes a *floor*: all of its inserts below it are finished. The minimum of the floors
//! is the number of settled inserts. This takes no lock; a request of a single process reads one word per
//! worker. With several ranks, rank 0 collects the floors each second and returns the minimum, so all ranks
//! know the settled count about a second later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::stream_plan::StreamPlan;
use crate::driver::Driver;
use crate::workload::numbering::{Numbering, Use};

/// Floor of a worker that adds no more numbers.
const ENDED: u64 = u64::MAX;

/// Progress of a counter in this process.
#[derive(Debug)]
pub struct Counter {
    floors: Box<[Floor]>,
    /// Highest count of the workers that have ended.
    total: AtomicU64,
    /// Settled count of all ranks together; set if there are several.
    settled_by_all: Option<AtomicU64>,
}

/// Floor of one worker. It has its own cache line, because each worker writes its floor constantly.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Floor(AtomicU64);

impl Counter {
    /// Creates a counter for `workers` threads of this process. `together`: other ranks use it, too.
    pub fn new(workers: u64, together: bool) -> Self {
        Self {
            floors: (0..workers).map(|_| Floor::default()).collect(),
            total: AtomicU64::new(0),
            settled_by_all: together.then(AtomicU64::default),
        }
    }

    /// Returns the settled count: the number below which every insert is finished, over all ranks.
    #[inline]
    pub fn settled(&self) -> u64 {
        if let Some(settled_by_all) = &self.settled_by_all {
            return settled_by_all.load(Ordering::Acquire);
        }
        let (lowest, total) = self.state();
        if lowest == ENDED { total } else { lowest }
    }

    /// Returns the lowest floor of this process's workers, and the highest count of its ended workers.
    /// The floor is `u64::MAX` if all have ended; the count is 0 if none has.
    #[inline]
    pub fn state(&self) -> (u64, u64) {
        let lowest = self.floors.iter().map(|floor| floor.0.load(Ordering::Acquire)).min().unwrap_or(ENDED);
        (lowest, self.total.load(Ordering::Acquire))
    }

    /// Raises the settled count over all ranks to `settled`. Does nothing with a single process.
    pub fn tell(&self, settled: u64) {
        if let Some(settled_by_all) = &self.settled_by_all {
            settled_by_all.fetch_max(settled, Ordering::AcqRel);
        }
    }

    /// Sets the floor of worker number `worker`: all of its inserts below it are finished.
    fn publish(&self, worker: usize, floor: u64) {
        self.floors[worker].0.store(floor, Ordering::Release);
    }

    /// Marks worker number `worker` as ended after `count` numbers, so that it no longer limits the settled count.
    pub fn end(&self, worker: usize, count: u64) {
        self.total.fetch_max(count, Ordering::AcqRel);
        self.publish(worker, ENDED);
    }
}

/// One worker's count in one stream.
#[derive(Debug)]
pub struct Count {
    /// The worker's number in its process.
    worker: usize,
    numbering: Numbering,
    /// One for each counter of the stream.
    tallies: Vec<Tally>,
}

#[derive(Debug)]
struct Tally {
    /// Index in the phase's counters.
    counter: usize,
    /// Numbers taken up to this worker's last iteration.
    count: u64,
    /// Numbers held by this worker's requests, ascending, each with whether its request is finished.
    held: VecDeque<(u64, bool)>,
}

impl Count {
    /// Creates the count of worker number `worker` of its process. `seed`: seed of the run. `stream`: key of the
    /// stream's draws.
    pub fn new<D: Driver>(stream_plan: &StreamPlan<D>, worker: usize, seed: u64, stream: u64) -> Self {
        let numbering = match stream_plan.groups.is_empty() {
            true => Numbering::Every(stream_plan.uses().count().min(stream_plan.steps() as usize) as u64),
            false => {
                let counted = stream_plan.groups.iter().filter(|group| group.uses.is_some());
                Numbering::drawn(counted.map(|group| group.share).collect(), seed, stream)
            }
        };
        Self::of(worker, numbering, stream_plan.counters())
    }

    /// Creates a worker's count with a given numbering. `counters`: index of each of its counters in the phase.
    fn of(worker: usize, numbering: Numbering, counters: Vec<usize>) -> Self {
        let tally = |counter| Tally { counter, count: 0, held: VecDeque::new() };
        Self { worker, numbering, tallies: counters.into_iter().map(tally).collect() }
    }

    /// Takes the counter numbers of the stream's iteration number `n`, which this worker runs, as not finished yet, and
    /// publishes the floors. Returns which counter the iteration uses, as an index in the stream's counters, and the
    /// first number that it takes. Calls must have ascending `n`.
    pub fn take(&mut self, n: u64, counters: &[Counter]) -> Use {
        let used = self.numbering.at(n);
        for (group, tally) in self.tallies.iter_mut().enumerate() {
            tally.count = self.numbering.taken(n, group);
            if group == used.group {
                tally.held.extend((used.number..tally.count).map(|number| (number, false)));
            }
            counters[tally.counter].publish(self.worker, tally.floor());
        }
        used
    }

    /// Marks `number` of counter `counter` as settled, and publishes the floor.
    /// A number is settled if its request is finished or will never be sent. Does nothing for a counter that the stream
    /// does not use.
    pub fn settle(&mut self, counter: usize, number: u64, counters: &[Counter]) {
        let Some(tally) = self.tallies.iter_mut().find(|tally| tally.counter == counter) else { return };
        if let Ok(place) = tally.held.binary_search_by_key(&number, |held| held.0) {
            tally.held[place].1 = true;
        }
        while tally.held.front().is_some_and(|(_, over)| *over) {
            tally.held.pop_front();
        }
        counters[counter].publish(self.worker, tally.floor());
    }

    /// Ends this worker's count of each counter. A counter with unsettled numbers keeps its floor instead.
    pub fn end(&self, counters: &[Counter]) {
        for tally in self.tallies.iter().filter(|tally| tally.held.is_empty()) {
            counters[tally.counter].end(self.worker, tally.count);
        }
    }
}

impl Tally {
    /// Returns the lowest number held by a request, or the count if no request holds one.
    fn floor(&self) -> u64 {
        self.held.front().map_or(self.count, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a count of a stream that inserts in every iteration.
    fn count(worker: usize) -> Count {
        Count::of(worker, Numbering::Every(1), vec![0])
    }

    /// The settled count ends at the first number with an unfinished request.
    #[test]
    fn numbers_are_settled_up_to_the_first_whose_request_is_not_over() {
        let counters = [Counter::new(2, false)];
        let (mut one, mut two) = (count(0), count(1));
        assert_eq!([0, 2].map(|n| one.take(n, &counters).number), [0, 2]);
        assert_eq!([1, 3].map(|n| two.take(n, &counters).number), [1, 3]);
        assert_eq!(counters[0].settled(), 0);
        one.settle(0, 2, &counters);
        two.settle(0, 1, &counters);
        assert_eq!(counters[0].settled(), 0, "number 0 is not over");
        one.settle(0, 0, &counters);
        assert_eq!(counters[0].settled(), 3);
        two.settle(0, 3, &counters);
        assert_eq!(counters[0].settled(), 3, "the other has counted up to 3");
        one.end(&counters);
        assert_eq!(counters[0].settled(), 4);
        two.end(&counters);
        assert_eq!(counters[0].settled(), 4);
    }

    #[test]
    fn a_worker_with_another_counter_does_not_delay_settling() {
        let counters = [Counter::new(1, false), Counter::new(1, false)];
        let mut count = Count::of(0, Numbering::drawn(vec![0.2, 0.3], 1, 2), vec![1, 0]);
        let mut counts = [0, 0];
        for n in 0..10_000 {
            let Use { group, number } = count.take(n, &counters);
            if let Some(counter) = [1, 0].get(group) {
                assert_eq!((counters[*counter].settled(), number), (counts[group], counts[group]));
                count.settle(*counter, number, &counters);
                counts[group] += 1;
            }
            assert_eq!([1, 0].map(|counter: usize| counters[counter].settled()), counts);
        }
        assert!(counts[0] > 1800 && counts[1] > 2800, "{counts:?}");
    }

    #[test]
    fn ranks_use_the_settled_count_of_rank_0() {
        let counters = [Counter::new(1, true)];
        let mut one = count(0);
        one.take(0, &counters);
        one.take(1, &counters);
        one.settle(0, 0, &counters);
        assert_eq!((counters[0].settled(), counters[0].state()), (0, (1, 0)));
        counters[0].tell(7);
        counters[0].tell(5);
        assert_eq!(counters[0].settled(), 7);
        one.settle(0, 1, &counters);
        one.end(&counters);
        assert_eq!(counters[0].state(), (ENDED, 2));
    }
}
