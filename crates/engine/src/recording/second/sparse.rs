//! Sparse histogram: for each non-zero counter, the number of zero counters before it and its count.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Counters below this index hold one value each; above, each power of two has 1024 counters. This is the
/// layout of [`crate::recording::durations::histogram`] with three significant digits.
const EXACT: u64 = 2048;

/// Number of counters.
const COUNTERS: u64 = 33_792;

/// Non-zero counters of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sparse(Vec<(u16, u64)>);

impl Sparse {
    /// Returns the non-zero counters of a histogram with the layout of [`crate::recording::durations::histogram`].
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut next = 0;
        let counters = histogram.iter_recorded().map(|recorded| {
            let place = place(recorded.value_iterated_to());
            let gap = place - next;
            next = place + 1;
            (gap as u16, recorded.count_at_value())
        });
        Self(counters.collect())
    }

    /// Adds the counters to a histogram with the layout of [`crate::recording::durations::histogram`].
    pub fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (place, count) in self.counters() {
            histogram.record_n(value(place), count).expect("a place among the counters has a value among the bounds");
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        if self.0.is_empty() {
            return self.clone_from(other);
        }
        let before = std::mem::take(self);
        let (mut ours, mut theirs) = (before.counters().peekable(), other.counters().peekable());
        let mut next = 0;
        let mut sum = Vec::with_capacity(before.0.len().max(other.0.len()));
        loop {
            let (place, count) = match (ours.peek(), theirs.peek()) {
                (None, None) => break,
                (Some(our), Some(their)) if our.0 == their.0 => (our.0, our.1 + their.1),
                (Some(our), Some(their)) if our.0 < their.0 => *our,
                (Some(our), None) => *our,
                (_, Some(their)) => *their,
            };
            ours.next_if(|our| our.0 == place);
            theirs.next_if(|their| their.0 == place);
            sum.push(((place - next) as u16, count));
            next = place + 1;
        }
        self.0 = sum;
    }

    /// Returns whether all indices are below the number of counters.
    pub fn is_valid(&self) -> bool {
        self.0.iter().map(|(gap, _)| u64::from(*gap) + 1).sum::<u64>() <= COUNTERS
    }

    /// Iterates over the index and count of each non-zero counter.
    fn counters(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut next = 0;
        self.0.iter().map(move |(gap, count)| {
            let place = next + u64::from(*gap);
            next = place + 1;
            (place, *count)
        })
    }
}

/// Returns the index of the histogram counter for a value in ns.
fn place(value: u64) -> u64 {
    // Number of halvings until the value is below EXACT: the counter's unit is that power of two.
    let halvings = u64::from((value / EXACT).checked_ilog2().map_or(0, |halvings| halvings + 1));
    halvings * (EXACT / 2) + (value >> halvings)
}

/// Returns the smallest value, in ns, of the histogram counter with index `place`.
fn value(place: u64) -> u64 {
    let halvings = (place / (EXACT / 2)).saturating_sub(1);
    (place - halvings * (EXACT / 2)) << halvings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::durations::histogram;
    use crate::util::draw::Draw;

    /// Returns `count` durations of many orders of magnitude, including the smallest and the largest.
    fn durations(seed: u64, count: u64) -> Histogram<u64> {
        let mut all = histogram();
        for k in 0..count {
            let draw = Draw::new(seed, 1, k);
            all.saturating_record(draw.bits(1) >> (draw.bits(2) % 64));
        }
        all.saturating_record(0);
        all.saturating_record(u64::MAX);
        all
    }

    #[test]
    fn indices_and_values_match_the_histogram() {
        let histogram = histogram();
        assert_eq!(histogram.distinct_values() as u64, COUNTERS);
        let mut value_before = 0;
        for number in 0..COUNTERS {
            let value = value(number);
            assert_eq!(place(value), number);
            assert_eq!(place(histogram.highest_equivalent(value)), number);
            assert_eq!(histogram.lowest_equivalent(value), value);
            if number > 0 {
                assert_eq!(histogram.next_non_equivalent(value_before), value);
            }
            value_before = value;
        }
    }

    #[test]
    fn a_histogram_comes_back_as_it_was() {
        for count in [0, 1, 100, 100_000] {
            let before = durations(count, count);
            let sparse = Sparse::of(&before);
            assert!(sparse.is_valid());
            let mut after = histogram();
            sparse.add_to(&mut after);
            assert_eq!((after.len(), after.max(), after.min()), (before.len(), before.max(), before.min()));
            assert_eq!(after, before);
        }
        let mut nothing = histogram();
        Sparse::of(&nothing.clone()).add_to(&mut nothing);
        assert_eq!(nothing, histogram());
    }

    #[test]
    fn the_sum_of_two_is_that_of_their_histograms() {
        let (one, two) = (durations(1, 3000), durations(2, 5000));
        let mut sum = Sparse::of(&one);
        sum.add(&Sparse::of(&two));
        let mut expected = one.clone();
        expected.add(&two).unwrap();
        assert_eq!(sum, Sparse::of(&expected));
        let mut first = Sparse::default();
        first.add(&Sparse::of(&two));
        first.add(&Sparse::default());
        assert_eq!(first, Sparse::of(&two));
    }
}
