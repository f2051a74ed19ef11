//! Due times of requests, and their distribution over generators.
//!
//! All generators compute the same schedule and stride it: generator `g` of `G` sends the requests `g`, `g +
//! G`, `g + 2G`, ... Together they send the same requests at the same times as a single generator, without
//! communication.

use std::time::Duration;

use crate::pacing::arrivals::Poisson;
use crate::pacing::profile::Profile;
use crate::plan::{Arrivals, NEVER, Think, ThinkDraw};
use crate::util::draw::Draw;
use crate::util::math;

/// Salts that separate the draws of a request.
pub mod salt {
    /// The operation of a mix.
    pub const MIX: u64 = 2;
    /// The think time: this salt and the next.
    pub const THINK: u64 = 3;
    /// Sampling for traces; the next three draw the ids.
    pub const TRACE: u64 = 1 << 14;
    /// Jitter of back-offs; the retry number is added.
    pub const BACK_OFF: u64 = 1 << 15;
    /// First salt of the variables.
    pub const VARIABLES: u64 = 1 << 16;
}

/// Position of a generator among all that share a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    /// Number of the generator, from 0.
    pub index: u64,
    /// Number of generators.
    pub of: u64,
}

impl Stride {
    /// Returns the position of thread `thread` of rank `rank` among all threads.
    /// Each of the `ranks` ranks has `threads` threads.
    pub fn new(rank: u64, ranks: u64, thread: u64, threads: u64) -> Self {
        Self { index: rank * threads + thread, of: ranks * threads }
    }

    /// Returns the stride over the first `parts` generators; `None` if this generator is not among them. Unchanged if
    /// there are at most `parts`.
    pub fn among(self, parts: u64) -> Option<Self> {
        (self.index < parts).then(|| Self { index: self.index, of: self.of.min(parts) })
    }

    /// Iterates over the numbers below `total` of this generator.
    pub fn numbers(self, total: u64) -> impl Iterator<Item = u64> {
        (self.index..total).step_by(self.of as usize)
    }

    /// Returns how many numbers below `total` belong to this generator.
    pub fn count(self, total: u64) -> u64 {
        total.saturating_sub(self.index).div_ceil(self.of)
    }
}

/// Due times of an open stream for one generator.
#[derive(Clone, Debug)]
pub struct Due {
    profile: Profile,
    /// `None` for even arrivals.
    poisson: Option<Poisson>,
    share: Stride,
    next: u64,
}

impl Due {
    /// Creates the due times of the requests of one generator. `rate`: total rate of all generators. `share`: this
    /// generator's share of the requests. `seed` and `stream`, the stream's key, determine Poisson arrivals.
    pub fn new(rate: Profile, arrivals: Arrivals, share: Stride, seed: u64, stream: u64) -> Self {
        let poisson = match arrivals {
            Arrivals::Constant => None,
            Arrivals::Poisson => Some(Poisson::new(seed, stream)),
        };
        Self { profile: rate, poisson, share, next: 0 }
    }
}

impl Iterator for Due {
    type Item = (u64, Duration);

    /// Returns the next request's number and its due time after the phase's start. `None` if the rate stays at 0, or
    /// the time exceeds [`NEVER`].
    fn next(&mut self) -> Option<Self::Item> {
        let k = self.share.index + self.next * self.share.of;
        self.next += 1;
        // A Poisson process of any rate has rate 1 on the axis of the rate's integral (time rescaling).
        let area = self.poisson.as_mut().map_or(k as f64, |poisson| poisson.at(k));
        self.profile.inverse(area).filter(|due| *due < NEVER).map(|due| (k, Duration::from_secs_f64(due)))
    }
}

/// Draws the think time after request `draw`, at least 0. Equal draws give equal times.
pub fn think(time: &Think, draw: &Draw) -> Duration {
    let unit = |part: u64| draw.unit(salt::THINK + part);
    let drawn = match *time {
        Think::Constant(time) => return time,
        Think::Drawn(drawn) => drawn,
    };
    let seconds = match drawn {
        ThinkDraw::Uniform(low, high) => low.as_secs_f64() + (high.as_secs_f64() - low.as_secs_f64()) * unit(0),
        ThinkDraw::Exponential(mean) => -mean.as_secs_f64() * math::ln(1.0 - unit(0)),
        // Box and Muller 1958.
        ThinkDraw::Normal(mean, deviation) => {
            let normal = (-2.0 * math::ln(1.0 - unit(0))).sqrt() * math::cos(std::f64::consts::TAU * unit(1));
            mean.as_secs_f64() + deviation.as_secs_f64() * normal
        }
    };
    Duration::from_secs_f64(seconds.clamp(0.0, NEVER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Level, Stage};

    /// Creates a constant rate.
    fn rate(value: f64) -> Profile {
        Profile::new(&Level::Constant(value)).unwrap()
    }

    /// Returns the first `total` due requests of several generators together, sorted.
    fn schedule(arrivals: Arrivals, generators: u64, total: usize) -> Vec<(u64, Duration)> {
        let mut all: Vec<_> = (0..generators)
            .flat_map(|g| {
                let share = Stride { index: g, of: generators };
                Due::new(rate(1000.0), arrivals, share, 7, 3).take(share.count(total as u64) as usize)
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
        let share = Stride { index: 0, of: 1 };
        let due: Vec<_> = Due::new(rate(4.0), Arrivals::Constant, share, 0, 0).take(5).map(|(_, due)| due).collect();
        assert_eq!(due, [0, 250, 500, 750, 1000].map(Duration::from_millis));
    }

    #[test]
    fn streams_of_the_same_constant_rate_start_together() {
        let due = |stream| {
            let share = Stride { index: 0, of: 1 };
            Due::new(rate(0.5), Arrivals::Constant, share, 7, stream).take(5).collect::<Vec<_>>()
        };
        assert_eq!(due(1), due(2));
        assert_eq!(due(1)[0].1, Duration::ZERO);
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

    /// Requests due after 30 years are left out of the schedule.
    #[test]
    fn requests_that_are_due_in_ages_never_come() {
        for value in [1e-25, 1e-10, 5e-324] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let due: Vec<_> = Due::new(rate(value), arrivals, Stride { index: 0, of: 1 }, 1, 1).collect();
                assert!(due.iter().all(|(k, due)| *k == 0 && *due == Duration::ZERO), "{value}: {due:?}");
            }
        }
    }

    #[test]
    fn a_share_counts_its_own_numbers() {
        for total in [0, 1, 6, 7, 8] {
            let counts: u64 = (0..7).map(|g| Stride { index: g, of: 7 }.count(total)).sum();
            assert_eq!(counts, total);
            for g in 0..7 {
                let share = Stride { index: g, of: 7 };
                assert_eq!(share.numbers(total).count() as u64, share.count(total));
            }
        }
        assert_eq!(Stride::new(1, 2, 1, 3), Stride { index: 4, of: 6 });
        assert_eq!(Stride { index: 4, of: 6 }.among(3), None);
        assert_eq!(Stride { index: 2, of: 6 }.among(3), Some(Stride { index: 2, of: 3 }));
    }

    #[test]
    fn a_poisson_ramp_has_as_many_arrivals_as_the_area_under_it() {
        let ramp = Profile::new(&Level::Stages {
            from: 0.0,
            stages: vec![Stage { to: 2000.0, over: Duration::from_secs(20) }],
            repeats: false,
        })
        .unwrap();
        let due: Vec<f64> = Due::new(ramp, Arrivals::Poisson, Stride { index: 0, of: 1 }, 5, 5)
            .map(|(_, due)| due.as_secs_f64())
            .take_while(|due| *due < 20.0)
            .collect();
        // 50 t^2 by t: four standard deviations around the expected quarter in the first half.
        let early = due.iter().filter(|due| **due < 10.0).count() as f64;
        assert!((early - 5_000.0).abs() < 4.0 * 5_000f64.sqrt(), "{early}");
        assert!((due.len() as f64 - 20_000.0).abs() < 4.0 * 20_000f64.sqrt(), "{}", due.len());
    }

    #[test]
    fn think_times_have_the_means_they_were_given() {
        let seconds = Duration::from_secs;
        for (time, mean, deviation) in [
            (Think::Constant(Duration::from_millis(500)), 0.5, 0.0),
            (Think::Drawn(ThinkDraw::Uniform(seconds(1), seconds(3))), 2.0, (4.0f64 / 12.0).sqrt()),
            (Think::Drawn(ThinkDraw::Exponential(seconds(2))), 2.0, 2.0),
            (Think::Drawn(ThinkDraw::Normal(seconds(10), seconds(1))), 10.0, 1.0),
        ] {
            let n = 10_000;
            let draws = |k| think(&time, &Draw::new(1, 1, k)).as_secs_f64();
            let average = (0..n).map(draws).sum::<f64>() / n as f64;
            assert!((average - mean).abs() <= 4.0 * deviation / 100.0 + 1e-9, "{time:?}: {average}");
        }
    }
}
