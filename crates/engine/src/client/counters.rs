//! Counters: which number a request takes that uses one, and how many of the numbers are settled.
//!
//! A record that the load inserts has the number of its insert among all inserts of the stream. That number is a pure
//! function of (seed, stream, k); see [`crate::workload::numbering`].
//!
//! Which of the records are there already is not such a function: it depends on the answers. It is the only thing that
//! workers share while load runs. Each publishes a *floor*, below which none of its own inserts is missing; the smallest
//! of the floors is how many numbers are settled. No lock is taken, and a request of a process that is alone reads one
//! word for each worker. Where ranks load together, their floors go to rank 0 with their seconds, and the smallest comes
//! back with its orders, so that what is settled is known about a second later, and alike on all ranks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::stream_plan::StreamPlan;
use crate::driver::Driver;
use crate::workload::numbering::{Numbering, Use};

/// The floor of a worker that adds nothing any more.
const ENDED: u64 = u64::MAX;

/// How far a counter has come in this process.
#[derive(Debug)]
pub struct Counter {
    floors: Box<[Floor]>,
    /// How many numbers had been taken when the worker that came farthest ended.
    total: AtomicU64,
    /// What all ranks together have settled, where there are several.
    told: Option<AtomicU64>,
}

/// A worker's floor, alone on its cache line, since each worker writes its own all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Floor(AtomicU64);

impl Counter {
    /// A counter that `workers` threads of this process use. `together`: other ranks use it, too.
    pub fn new(workers: u64, together: bool) -> Self {
        Self {
            floors: (0..workers).map(|_| Floor::default()).collect(),
            total: AtomicU64::new(0),
            told: together.then(AtomicU64::default),
        }
    }

    /// The number below which every insert is over.
    #[inline]
    pub fn settled(&self) -> u64 {
        if let Some(told) = &self.told {
            return told.load(Ordering::Acquire);
        }
        let (lowest, total) = self.state();
        if lowest == ENDED { total } else { lowest }
    }

    /// The lowest floor of this process, and how many numbers had been taken when the last worker ended.
    #[inline]
    pub fn state(&self) -> (u64, u64) {
        let lowest = self.floors.iter().map(|floor| floor.0.load(Ordering::Acquire)).min().unwrap_or(ENDED);
        (lowest, self.total.load(Ordering::Acquire))
    }

    /// All ranks together have settled this many numbers.
    pub fn tell(&self, settled: u64) {
        if let Some(told) = &self.told {
            told.fetch_max(settled, Ordering::AcqRel);
        }
    }

    fn publish(&self, worker: usize, floor: u64) {
        self.floors[worker].0.store(floor, Ordering::Release);
    }

    /// Worker number `worker` takes no more numbers; `count` is where the counter stood for it.
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
    /// Which of the phase's counters.
    counter: usize,
    /// How many numbers are taken by the iterations up to this worker's last.
    count: u64,
    /// Numbers that requests of this worker hold, in ascending order, each with whether its request is over.
    held: VecDeque<(u64, bool)>,
}

impl Count {
    /// The count of worker number `worker` of its process in a stream whose draws have the key `stream`.
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

    fn of(worker: usize, numbering: Numbering, counters: Vec<usize>) -> Self {
        let tally = |counter| Tally { counter, count: 0, held: VecDeque::new() };
        Self { worker, numbering, tallies: counters.into_iter().map(tally).collect() }
    }

    /// Takes the numbers that iteration `n` needs, which is this worker's and comes after those that it took before.
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

    /// The request that holds `number` is over, or will never be sent.
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

    /// This worker takes no more numbers. Those that it still holds stay unsettled.
    pub fn end(&self, counters: &[Counter]) {
        for tally in self.tallies.iter().filter(|tally| tally.held.is_empty()) {
            counters[tally.counter].end(self.worker, tally.count);
        }
    }
}

impl Tally {
    fn floor(&self) -> u64 {
        self.held.front().map_or(self.count, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count of a stream of which every iteration inserts.
    fn count(worker: usize) -> Count {
        Count::of(worker, Numbering::Every(1), vec![0])
    }

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
    fn a_worker_whose_iterations_use_another_counter_holds_nobody_back() {
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
    fn ranks_know_as_settled_what_they_are_told() {
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
