//! When requests are due, and which of them are a generator's own.
//!
//! All generators know the whole schedule and stride it: generator `g` of `G` has the requests `g`, `g + G`,
//! `g + 2G`, ... So `G` generators together issue what one would, at the same instants, and never talk.

use std::time::Duration;

use crate::draw::Draw;
use crate::plan::Arrivals;

/// Salts tell apart what one request draws.
pub mod salt {
    /// The gap before a Poisson arrival.
    pub const ARRIVAL: u64 = 1;
    /// The operation that is picked from a mix.
    pub const MIX: u64 = 2;
    /// Variables have the salts from here on.
    pub const VARIABLES: u64 = 1 << 16;
}

/// A generator's place among all that share a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// This generator, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

impl Share {
    /// Thread `thread` of rank `rank`, where each of `ranks` has `threads`.
    pub fn new(rank: u64, ranks: u64, thread: u64, threads: u64) -> Self {
        Self { index: rank * threads + thread, of: ranks * threads }
    }

    /// The share in something of which there are only `parts`; `None` if there is none left for this generator.
    pub fn among(self, parts: u64) -> Option<Self> {
        (self.index < parts).then(|| Self { index: self.index, of: self.of.min(parts) })
    }

    /// The numbers below `total` that are this generator's own.
    pub fn own(self, total: u64) -> impl Iterator<Item = u64> {
        (self.index..total).step_by(self.of as usize)
    }

    /// How many of `total` are this generator's own.
    pub fn count(self, total: u64) -> u64 {
        total.saturating_sub(self.index).div_ceil(self.of)
    }
}

/// The due instants of an open stream, as seen by one generator.
#[derive(Clone, Debug)]
pub struct Due {
    rate: f64,
    arrivals: Arrivals,
    share: Share,
    key: Draw,
    next: u64,
    elapsed: f64,
}

impl Due {
    /// The arrivals at `rate` per second (over all generators) that are `share`'s own.
    pub fn new(rate: f64, arrivals: Arrivals, share: Share, seed: u64, stream: u64) -> Self {
        Self { rate, arrivals, share, key: Draw { seed, stream, k: 0 }, next: 0, elapsed: 0.0 }
    }
}

impl Iterator for Due {
    type Item = (u64, Duration);

    /// The next request's number and when it is due after the phase's start.
    fn next(&mut self) -> Option<Self::Item> {
        match self.arrivals {
            Arrivals::Constant => {
                let k = self.share.index + self.next * self.share.of;
                self.next += 1;
                Some((k, Duration::from_secs_f64(k as f64 / self.rate)))
            }
            // The gaps of the others are summed up too: about 5 ns each, and no talk.
            Arrivals::Poisson => loop {
                let k = self.next;
                self.next += 1;
                let gap = -(1.0 - Draw { k, ..self.key }.unit(salt::ARRIVAL)).ln() / self.rate;
                self.elapsed += gap;
                if k % self.share.of == self.share.index {
                    return Some((k, Duration::from_secs_f64(self.elapsed)));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, generators: u64, total: usize) -> Vec<(u64, Duration)> {
        let mut all: Vec<_> = (0..generators)
            .flat_map(|g| {
                let share = Share { index: g, of: generators };
                Due::new(1000.0, arrivals, share, 7, 3).take(share.count(total as u64) as usize)
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn any_number_of_generators_issues_the_same_requests_at_the_same_instants() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let alone = schedule(arrivals, 1, 1000);
            assert_eq!(alone.len(), 1000);
            for generators in [2, 7] {
                assert_eq!(schedule(arrivals, generators, 1000), alone);
            }
        }
    }

    #[test]
    fn constant_arrivals_are_even() {
        let share = Share { index: 0, of: 1 };
        let due: Vec<_> = Due::new(4.0, Arrivals::Constant, share, 0, 0).take(5).map(|(_, due)| due).collect();
        assert_eq!(due, [0, 250, 500, 750, 1000].map(Duration::from_millis));
    }

    #[test]
    fn poisson_gaps_are_exponential_with_the_mean_of_the_rate() {
        let n = 20_000;
        let due = schedule(Arrivals::Poisson, 1, n);
        let mut gaps: Vec<f64> = due.windows(2).map(|w| (w[1].1 - w[0].1).as_secs_f64() * 1000.0).collect();
        gaps.sort_by(f64::total_cmp);
        // Kolmogorov-Smirnov against 1 - exp(-x); 1.95 / sqrt(n) is its 99.9 % quantile.
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| (1.0 - (-gap).exp() - (i as f64 + 0.5) / gaps.len() as f64).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / (n as f64).sqrt(), "distance {distance}");
    }

    #[test]
    fn a_share_counts_its_own_numbers() {
        for total in [0, 1, 6, 7, 8] {
            let counts: u64 = (0..7).map(|g| Share { index: g, of: 7 }.count(total)).sum();
            assert_eq!(counts, total);
            for g in 0..7 {
                let share = Share { index: g, of: 7 };
                assert_eq!(share.own(total).count() as u64, share.count(total));
            }
        }
        assert_eq!(Share::new(1, 2, 1, 3), Share { index: 4, of: 6 });
        assert_eq!(Share { index: 4, of: 6 }.among(3), None);
        assert_eq!(Share { index: 2, of: 6 }.among(3), Some(Share { index: 2, of: 3 }));
    }
}
