//! Arrivals of a Poisson process of rate 1, with random access. A rank's cost does not grow with the number
//! of ranks that share the process.
//!
//! Arrival *k* is the sum of the first *k* + 1 gaps, which are independent and exponential. The sum of a
//! block of *n* gaps has a gamma distribution of shape *n*. The fraction of its first half has a beta
//! distribution of shapes *n*/2 and *n*/2, independent of the sum (Lukacs 1955). The sum of a block is
//! therefore drawn first, then split in halves down to the leaf that contains the arrival. The gaps in a leaf
//! are exponential numbers scaled to the leaf's sum. Each draw is a function of the seed and its position, so
//! all ranks draw the same values.

use crate::pacing::dyadic_sampler::{DyadicSampler, LEAF, Law, Piece};
use crate::util::draw::Draw;
use crate::util::math;

/// Salts that separate these draws from a request's other draws.
mod salt {
    /// A gap within its leaf.
    pub const GAP: u64 = 1;
    /// The split of a piece of level l: this and the next plus 2 l.
    pub const HALF: u64 = 1 << 8;
    /// The sum of a block: three from here for each attempt.
    pub const BLOCK: u64 = 1 << 9;
}

/// Arrivals in ascending order.
#[derive(Clone, Debug)]
pub struct Poisson {
    row: DyadicSampler<Gaps>,
    /// Number of the current leaf's first arrival, and its arrival times.
    leaf: (u64, Vec<f64>),
}

/// Distribution of the gaps.
#[derive(Clone, Debug)]
struct Gaps {
    key: Draw,
    /// Sum of all gaps before the current block.
    before: f64,
}

/// Start and sum of consecutive gaps.
#[derive(Clone, Copy, Debug)]
struct Time {
    start: f64,
    sum: f64,
}

impl Law for Gaps {
    const BLOCK: u32 = 20;

    type Total = Time;

    /// Draws the sum of the gaps of the block that begins with arrival number `first`; returns it with its start.
    fn whole(&self, first: u64) -> Time {
        let draw = Draw { k: first, ..self.key };
        let sum = gamma((1u64 << Self::BLOCK) as f64, |number| draw.unit(salt::BLOCK + number));
        Time { start: self.before, sum }
    }

    /// Adds the sum of a finished block to the start of the next one.
    fn pass(&mut self, block: Time) {
        self.before += block.sum;
    }

    /// Splits the sum of a piece at random between its first and its second half.
    fn halves(&self, Piece { first, level, total: Time { start, sum } }: Piece<Time>) -> (Time, Time) {
        let half = 1u64 << (level - 1);
        let draw = Draw { k: first, ..self.key };
        let of = salt::HALF + 2 * u64::from(level);
        let share = beta(half as f64, draw.unit(of), draw.unit(of + 1));
        let (left, right) = (sum * share, sum * (1.0 - share));
        (Time { start, sum: left }, Time { start: start + left, sum: right })
    }
}

impl Poisson {
    /// Creates the process of a stream, with a mean gap of 1. `seed` and `stream`, the stream's key, determine the
    /// arrivals.
    pub fn new(seed: u64, stream: u64) -> Self {
        let row = DyadicSampler::new(Gaps { key: Draw::new(seed, stream, 0), before: 0.0 });
        Self { row, leaf: (u64::MAX, Vec::new()) }
    }

    /// Returns the time of arrival `k`, counted from 0, in mean gaps. Numbers must not decrease from call to call.
    pub fn at(&mut self, k: u64) -> f64 {
        if k >> LEAF != self.leaf.0 >> LEAF {
            let piece = self.row.leaf(k);
            self.draw_leaf(&piece);
        }
        self.leaf.1[(k - self.leaf.0) as usize]
    }

    /// Draws the arrival times of the piece, a leaf, and makes it the current leaf.
    fn draw_leaf(&mut self, piece: &Piece<Time>) {
        let key = self.row.law().key;
        let (first, arrivals) = &mut self.leaf;
        *first = piece.first;
        arrivals.clear();
        let mut sum = 0.0;
        for k in piece.first..piece.first + (1 << LEAF) {
            sum -= math::ln(1.0 - Draw { k, ..key }.unit(salt::GAP));
            arrivals.push(sum);
        }
        for arrival in arrivals {
            *arrival = piece.total.start + piece.total.sum * (*arrival / sum);
        }
    }
}

/// Draws from a gamma distribution with a large shape and scale 1 (Marsaglia and Tsang 2000). `uniform(i)`: the i-th
/// uniform number in [0, 1).
fn gamma(shape: f64, uniform: impl Fn(u64) -> f64) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    let mut number = 0;
    loop {
        let [radius, angle, bound] = [0, 1, 2].map(|part| uniform(number + part));
        // Box and Muller 1958.
        let normal = (-2.0 * math::ln(1.0 - radius)).sqrt() * math::cos(std::f64::consts::TAU * angle);
        let root = 1.0 + c * normal;
        let v = root * root * root;
        if v > 0.0 && math::ln(1.0 - bound) < 0.5 * normal * normal + d * (1.0 - v + math::ln(v)) {
            return d * v;
        }
        number += 3;
    }
}

/// Draws from a symmetric beta distribution of shape `shape`, at least 1. The value lies in 0 to 1.
/// `radius` and `angle` are uniform numbers in [0, 1). The value is a coordinate of a random point in a disc (Ulrich
/// 1984).
fn beta(shape: f64, radius: f64, angle: f64) -> f64 {
    let squared = -math::exp_m1(math::ln(1.0 - radius) * 2.0 / (2.0 * shape - 1.0));
    0.5 + 0.5 * squared.sqrt() * math::cos(std::f64::consts::TAU * angle)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of the first `count` arrivals.
    fn all(seed: u64, count: u64) -> Vec<f64> {
        let mut poisson = Poisson::new(seed, 9);
        (0..count).map(|k| poisson.at(k)).collect()
    }

    #[test]
    fn skipping_arrivals_does_not_move_the_others() {
        let count = (1 << Gaps::BLOCK) + 5000;
        let alone = all(3, count);
        for stride in [2, 7, 10_000, 1 << 19] {
            for first in [0, 1, stride - 1] {
                let mut poisson = Poisson::new(3, 9);
                let mut ours = (first..count).step_by(stride as usize);
                assert!(ours.all(|k| poisson.at(k).to_bits() == alone[k as usize].to_bits()), "every {stride}th");
            }
        }
    }

    #[test]
    fn arrivals_come_one_after_the_other() {
        let arrivals = all(5, (1 << Gaps::BLOCK) + 100);
        assert!(arrivals.is_sorted());
        assert!(arrivals[0] > 0.0);
    }

    #[test]
    fn gaps_are_independent_and_exponential_with_mean_1() {
        let arrivals = all(7, 200_000);
        let gaps: Vec<f64> = [0.0].iter().chain(&arrivals).zip(&arrivals).map(|(before, at)| at - before).collect();
        let n = gaps.len() as f64;
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        // Kolmogorov-Smirnov against 1 - exp(-x); 1.95 / sqrt(n) is its 99.9 % quantile.
        let distance = sorted
            .iter()
            .enumerate()
            .map(|(i, gap)| (1.0 - (-gap).exp() - (i as f64 + 0.5) / n).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "distance {distance}");
        for apart in [1, 2, 16, 32, 64] {
            let pairs = gaps.iter().zip(&gaps[apart..]);
            let covariance = pairs.map(|(one, two)| (one - 1.0) * (two - 1.0)).sum::<f64>() / n;
            assert!(covariance.abs() < 4.0 / n.sqrt(), "gaps {apart} apart have the correlation {covariance}");
        }
    }

    #[test]
    fn counts_vary_as_much_as_they_do_in_a_poisson_process_on_every_scale() {
        let arrivals = all(11, 1 << Gaps::BLOCK);
        for width in [10.0, 1000.0, 20_000.0] {
            let windows = (arrivals.last().unwrap() / width) as usize;
            let mut counts = vec![0.0; windows];
            for at in &arrivals {
                if let Some(count) = counts.get_mut((at / width) as usize) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / windows as f64;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (windows - 1) as f64;
            // The variance of a Poisson number is its mean; an estimate from w windows has the relative error
            // sqrt(2/w).
            let off = (variance / mean - 1.0).abs();
            assert!(
                off < 4.0 * (2.0 / windows as f64).sqrt() + 4.0 / width.sqrt() / 100.0,
                "{width}: {variance} by {mean}"
            );
        }
    }

    #[test]
    fn sums_of_blocks_have_their_mean_and_variance() {
        let shape = (1u64 << Gaps::BLOCK) as f64;
        let sums: Vec<f64> = (0..4000).map(|k| gamma(shape, |part| Draw::new(1, 2, k).unit(part))).collect();
        let mean = sums.iter().sum::<f64>() / 4000.0;
        let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / 3999.0;
        assert!((mean - shape).abs() < 4.0 * (shape / 4000.0).sqrt(), "{mean}");
        assert!((variance / shape - 1.0).abs() < 4.0 * (2.0f64 / 4000.0).sqrt(), "{variance}");
    }
}
