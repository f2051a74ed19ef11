//! Selection of events for visibility probes.
//!
//! Time is divided into equal intervals. Each interval yields one event: the first to arrive after an instant
//! drawn at random within the interval. The selection depends on the seed and on arrival times, not on the
//! store's answers. Random instants do not fall into step with a store that refreshes periodically, as evenly
//! spaced ones would. Every interval has equal weight, whatever its number of events.

use std::time::{Duration, Instant};

use crate::pacing::schedule::Stride;
use crate::util::draw::{Draw, hash_name};
use crate::workload::event::Event;

/// Selects events for probes.
#[derive(Debug)]
pub struct Sampler {
    start: Instant,
    every: Duration,
    share: Stride,
    seed: u64,
    /// Index of the next interval assigned to this process.
    next: u64,
    due: Instant,
}

impl Sampler {
    /// Creates a sampler of one event per `every` since `start`, over all ranks. `share`: the intervals of this rank.
    /// `seed` determines the instants.
    pub fn new(start: Instant, every: Duration, share: Stride, seed: u64) -> Self {
        let mut sampler = Self { start, every, share, seed, next: share.index, due: start };
        sampler.due = sampler.instant();
        sampler
    }

    /// Returns the random instant within the next interval.
    fn instant(&self) -> Instant {
        let draw = Draw::new(self.seed, hash_name("visible"), self.next);
        self.start + self.every.mul_f64(self.next as f64 + draw.unit(0))
    }

    /// Calls `chosen` with the index of each selected event: the first after a random instant in each of this rank's
    /// intervals. Events must arrive in ascending order, also between calls.
    pub fn choose(&mut self, events: &[Event], mut chosen: impl FnMut(usize)) {
        if events.last().is_none_or(|last| last.arrived < self.due) {
            return;
        }
        for (place, event) in events.iter().enumerate() {
            if event.arrived < self.due {
                continue;
            }
            chosen(place);
            // Intervals without events are skipped.
            let passed = (event.arrived - self.start).as_secs_f64() / self.every.as_secs_f64();
            let passed = (passed as u64).saturating_sub(self.share.index) / self.share.of;
            let first = self.share.index + passed * self.share.of;
            if first > self.next {
                // The instant of this interval may still come.
                self.next = first;
                self.due = self.instant();
            }
            while self.due <= event.arrived {
                self.next += self.share.of;
                self.due = self.instant();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an event that arrived at this time.
    fn event(arrived: Instant) -> Event {
        Event { arrived, line: 0..0, id: 0..0, kind: 0, time: 0, arrival: 0 }
    }

    /// Returns the arrival times, s since the start, of the events selected from one event per ms.
    fn chosen(share: Stride, seed: u64, seconds: u64, pieces: usize) -> Vec<f64> {
        let start = Instant::now();
        let mut sampler = Sampler::new(start, Duration::from_secs(1), share, seed);
        let events: Vec<Event> =
            (0..seconds * 1000).map(|millisecond| event(start + Duration::from_millis(millisecond))).collect();
        let mut chosen = Vec::new();
        for piece in events.chunks(pieces) {
            sampler.choose(piece, |place| chosen.push((piece[place].arrived - start).as_secs_f64()));
        }
        chosen
    }

    const ALONE: Stride = Stride { index: 0, of: 1 };

    /// Each interval yields one event, at a random time within it.
    #[test]
    fn one_event_of_each_stretch_is_chosen_at_an_instant_that_is_drawn() {
        let instants = chosen(ALONE, 7, 100, 1);
        let whole: Vec<u64> = instants.iter().map(|instant| (instant - 0.001) as u64).collect();
        assert_eq!(whole, (0..100).collect::<Vec<_>>());
        let within: Vec<f64> = instants.iter().map(|instant| instant.fract()).collect();
        let mean = within.iter().sum::<f64>() / 100.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
        assert!(within.iter().any(|at| *at < 0.1) && within.iter().any(|at| *at > 0.9));
    }

    /// The selection depends on the seed, not on the sizes of batches.
    #[test]
    fn which_events_are_chosen_does_not_depend_on_the_batches_that_carry_them() {
        assert_eq!(chosen(ALONE, 7, 20, 1), chosen(ALONE, 7, 20, 4096));
        assert_ne!(chosen(ALONE, 7, 20, 1), chosen(ALONE, 8, 20, 1));
    }

    /// Three ranks together select the same events as one.
    #[test]
    fn ranks_together_choose_the_sample_of_one() {
        let mut together: Vec<f64> = (0..3).flat_map(|index| chosen(Stride { index, of: 3 }, 7, 30, 50)).collect();
        together.sort_by(f64::total_cmp);
        assert_eq!(together, chosen(ALONE, 7, 30, 50));
    }

    /// An event chosen for an earlier interval does not use up the interval in which it arrives.
    #[test]
    fn an_event_that_arrives_in_the_next_stretch_leaves_that_stretch_its_own() {
        let start = Instant::now();
        let events: Vec<Event> = (0..200).map(|half| event(start + Duration::from_millis(500 * half))).collect();
        let chosen = |share: Stride| {
            let (mut sampler, mut places) = (Sampler::new(start, Duration::from_secs(1), share, 7), Vec::new());
            sampler.choose(&events, |place| places.push(place));
            places
        };
        let alone = chosen(ALONE);
        assert_eq!(alone.len(), 99, "of 100 intervals, the instant of the last is after the last event");
        let mut together: Vec<usize> = (0..3).flat_map(|index| chosen(Stride { index, of: 3 })).collect();
        together.sort_unstable();
        assert_eq!(together, alone);
    }

    /// After intervals without events, only one event is selected.
    #[test]
    fn after_a_pause_one_event_is_chosen_and_not_one_for_each_stretch_of_it() {
        let start = Instant::now();
        let mut sampler = Sampler::new(start, Duration::from_secs(1), ALONE, 7);
        let late = [10_000, 10_001, 10_002].map(|ms| event(start + Duration::from_millis(ms)));
        let mut places = Vec::new();
        sampler.choose(&late, |place| places.push(place));
        assert_eq!(places, [0]);
    }
}
