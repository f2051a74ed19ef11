//! Counters: which number a request takes that uses one, and how many of the numbers are settled.
//!
//! A record that the load inserts has the number of its insert among all inserts of the stream. That number is a pure
//! function of (seed, stream, k): every worker knows the whole schedule, and counts the inserts that lie before its own
//! requests, those of the other workers of its process included (as it does with the gaps of Poisson arrivals).
//!
//! Which of the records are there already is not such a function: it depends on the answers. It is the only thing that
//! the workers of a process share while load runs. Each publishes a *floor*, below which none of its own inserts is missing;
//! the smallest of the floors is how many numbers are settled. No lock is taken, and a request reads one word for each
//! worker. Processes share nothing: each counts its own requests and chooses from its own records.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::course::Course;
use crate::driver::Driver;
use crate::schedule::Share;

/// The floor of a worker that adds nothing any more.
const ENDED: u64 = u64::MAX;

/// How far a counter has come in this process.
#[derive(Debug)]
pub struct Counter {
    floors: Box<[Floor]>,
    /// How many numbers had been taken when the worker that came farthest ended.
    total: AtomicU64,
}

/// A worker's floor, alone on its cache line, since each worker writes its own all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Floor(AtomicU64);

impl Counter {
    /// A counter that `workers` threads of this process use.
    pub fn new(workers: u64) -> Self {
        Self { floors: (0..workers).map(|_| Floor::default()).collect(), total: AtomicU64::new(0) }
    }

    /// The number below which every insert of this process is over.
    #[inline]
    pub fn settled(&self) -> u64 {
        let lowest = self.floors.iter().map(|floor| floor.0.load(Ordering::Acquire)).min().unwrap_or(ENDED);
        if lowest == ENDED { self.total.load(Ordering::Acquire) } else { lowest }
    }

    /// The lowest floor, and how many numbers had been taken by those who ended.
    pub fn state(&self) -> (u64, u64) {
        let lowest = self.floors.iter().map(|floor| floor.0.load(Ordering::Acquire)).min().unwrap_or(ENDED);
        (lowest, self.total.load(Ordering::Acquire))
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
    /// The workers of this process, by their numbers among all workers of the stream.
    peers: std::ops::Range<u64>,
    of: u64,
    /// The first iteration that has not been counted.
    next: u64,
    /// What each of the phase's counters stands at; only those that this stream uses move.
    tallies: Vec<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    /// Requests that used the counter, of this process and in the iterations before `next`.
    count: u64,
    /// Numbers that requests of this worker hold, in ascending order, each with whether its request is over.
    held: VecDeque<(u64, bool)>,
    /// Whether this stream uses the counter.
    used: bool,
}

impl Count {
    /// The count of worker number `worker` of `threads` in its process, whose place in the stream is `share`.
    pub fn new<D: Driver>(course: &Course<D>, counters: usize, worker: usize, threads: u64, share: Share) -> Self {
        let first = share.index - worker as u64;
        let mut tallies: Vec<Tally> = (0..counters).map(|_| Tally::default()).collect();
        for counter in course.uses() {
            tallies[counter].used = true;
        }
        Self { worker, peers: first..(first + threads).min(share.of), of: share.of, next: 0, tallies }
    }

    /// Counts up to iteration `n`, which is this worker's, and takes the numbers that it needs. Returns the first of them;
    /// an iteration uses one counter at most. `uses` are the counters that the requests of an iteration use.
    pub fn take<I: Iterator<Item = usize>>(&mut self, n: u64, counters: &[Counter], uses: impl Fn(u64) -> I) -> u64 {
        for iteration in self.next..n {
            if self.peers.contains(&(iteration % self.of)) {
                uses(iteration).for_each(|counter| self.tallies[counter].count += 1);
            }
        }
        self.next = n + 1;
        let mut first = None;
        for counter in uses(n) {
            let tally = &mut self.tallies[counter];
            first.get_or_insert(tally.count);
            tally.held.push_back((tally.count, false));
            tally.count += 1;
        }
        for (tally, counter) in self.tallies.iter().zip(counters).filter(|(tally, _)| tally.used) {
            counter.publish(self.worker, tally.floor());
        }
        first.unwrap_or(0)
    }

    /// The request that holds `number` is over, or will never be sent.
    pub fn settle(&mut self, counter: usize, number: u64, counters: &[Counter]) {
        let tally = &mut self.tallies[counter];
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
        for (tally, counter) in self.tallies.iter().zip(counters).filter(|(tally, _)| tally.used) {
            if tally.held.is_empty() {
                counter.end(self.worker, tally.count);
            }
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

    /// A count in a mix in which every third request inserts.
    fn count(worker: usize, first: u64, threads: u64, of: u64) -> Count {
        let tallies = vec![Tally { used: true, ..Tally::default() }];
        Count { worker, peers: first..(first + threads).min(of), of, next: 0, tallies }
    }

    fn uses(iteration: u64) -> impl Iterator<Item = usize> {
        iteration.is_multiple_of(3).then_some(0).into_iter()
    }

    #[test]
    fn any_number_of_threads_gives_the_same_numbers_to_the_same_requests() {
        for threads in [1u64, 2, 5] {
            let counters = [Counter::new(threads)];
            for worker in 0..threads {
                let mut count = count(worker as usize, 0, threads, threads);
                for n in (worker..60).step_by(threads as usize) {
                    let number = count.take(n, &counters, uses);
                    assert!(!n.is_multiple_of(3) || number == n / 3, "{threads} threads, request {n}: {number}");
                }
            }
        }
    }

    #[test]
    fn a_process_counts_its_own_requests() {
        // Two processes of two threads: the second has the requests 2, 3, 6, 7, 10, 11, ..., of which 3, 6, 15, 18 insert.
        let counters = [Counter::new(2)];
        let (mut third, mut fourth) = (count(0, 2, 2, 4), count(1, 2, 2, 4));
        let inserts = [3, 7, 11, 15].map(|n| fourth.take(n, &counters, uses));
        assert_eq!([inserts[0], inserts[3]], [0, 2]);
        let inserts = [2, 6, 10, 14, 18].map(|n| third.take(n, &counters, uses));
        assert_eq!([inserts[1], inserts[4]], [1, 3]);
    }

    #[test]
    fn numbers_are_settled_up_to_the_first_whose_request_is_not_over() {
        let counters = [Counter::new(2)];
        let (mut one, mut two) = (count(0, 0, 2, 2), count(1, 0, 2, 2));
        // Inserts are the requests 0, 6 (of one), 3, 9 (of two): the numbers 0, 2 and 1, 3.
        assert_eq!([0, 2, 4, 6].map(|n| one.take(n, &counters, uses))[3], 2);
        assert_eq!([1, 3, 5, 7, 9].map(|n| two.take(n, &counters, uses))[4], 3);
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
}
