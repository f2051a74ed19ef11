//! Counters of a stream: the counter that each iteration uses, and the number of earlier uses. The number of
//! an insert is a function of (seed, stream, k). Its cost does not grow with the number of generators.
//!
//! If every iteration uses the counter equally often, the number is a product. In a mix, each iteration draws
//! independently whether it uses a counter. The number of uses in a block of iterations has a binomial
//! distribution (multinomial with several counters). The number of these in the block's first half has a
//! hypergeometric distribution. The count of a block is therefore drawn first, then split in halves down to
//! the leaf that contains the iteration. There the uses are a random choice among the iterations. Each draw
//! is a function of the seed and its position, so all generators draw the same values.

use std::sync::OnceLock;

use crate::pacing::dyadic_sampler::{DyadicSampler, LEAF, Law, Piece};
use crate::util::draw::Draw;
use crate::util::math;

/// Salts that separate these draws from a request's other draws. Each is the first of a range, one for each
/// counter and level.
mod salt {
    /// The counter that an iteration of a leaf uses.
    pub const USE: u64 = 1 << 12;
    /// The number of uses of a counter in a block.
    pub const BLOCK: u64 = 1 << 13;
    /// The number of these in the first half of a piece.
    pub const HALF: u64 = 1 << 14;
}

/// Uses of the counters of one stream.
#[derive(Clone, Debug)]
pub enum Numbering {
    /// Every iteration uses the stream's only counter this often.
    Every(u64),
    /// Each iteration of a mix uses one of several counters, or none.
    Drawn(Box<Drawn>),
}

/// The counter that an iteration uses, or the number of counters for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Index in the stream's counters.
    pub group: usize,
    /// The first number that it takes.
    pub number: u64,
}

impl Numbering {
    /// Creates the numbering of a mix. `shares[i]`: probability that an iteration uses counter i. `seed` and `stream`,
    /// the stream's key, determine the draws.
    pub fn drawn(shares: Vec<f64>, seed: u64, stream: u64) -> Self {
        Self::Drawn(Box::new(Drawn::new(shares, seed, stream)))
    }

    /// Returns the counter that iteration `n` uses, with the first number that it takes.
    /// The group of an iteration without a counter is the number of counters. `n` must not decrease from call to call.
    pub fn at(&mut self, n: u64) -> Use {
        match self {
            Self::Every(times) => Use { group: 0, number: n * *times },
            Self::Drawn(drawn) => drawn.at(n),
        }
    }

    /// Returns the number of uses of counter `group` up to and including iteration `n`.
    /// `n` must be the last one passed to [`Numbering::at`].
    pub fn taken(&self, n: u64, group: usize) -> u64 {
        match self {
            Self::Every(times) => (n + 1) * *times,
            Self::Drawn(drawn) => drawn.taken(n, group),
        }
    }
}

/// See [`Numbering::Drawn`].
#[derive(Clone, Debug)]
pub struct Drawn {
    row: DyadicSampler<Counts>,
    /// The current leaf: its first iteration, the counter of each iteration, and the uses before it.
    leaf: u64,
    uses: Vec<usize>,
    leaf_before: Vec<u64>,
}

/// Distribution of the uses.
#[derive(Clone, Debug)]
struct Counts {
    key: Draw,
    shares: Vec<f64>,
    /// Uses of each counter before the current block.
    before: Vec<u64>,
}

impl Law for Counts {
    const BLOCK: u32 = 16;

    /// For each counter, the number of uses before and within the piece.
    type Total = Vec<(u64, u64)>;

    /// Draws the uses of each counter in the block of iterations that begins with `first`.
    /// Returns for each counter its uses before the block and in the block.
    fn whole(&self, first: u64) -> Self::Total {
        let draw = Draw { k: first, ..self.key };
        let (mut rest, mut share_of_rest) = (1u64 << Self::BLOCK, 1.0);
        let counts = self.shares.iter().zip(&self.before).enumerate().map(|(group, (share, before))| {
            let within = binomial(rest, share / share_of_rest, draw.unit(salt::BLOCK + group as u64));
            rest -= within;
            share_of_rest -= share;
            (*before, within)
        });
        counts.collect()
    }

    /// Adds the uses in a finished block to the uses before the next one.
    fn pass(&mut self, block: Self::Total) {
        for (before, (_, within)) in self.before.iter_mut().zip(block) {
            *before += within;
        }
    }

    /// Splits the uses in a piece at random between its first and its second half.
    fn halves(&self, Piece { first, level, total: mut left }: Piece<Self::Total>) -> (Self::Total, Self::Total) {
        let level = level - 1;
        let half = 1u64 << level;
        let draw = Draw { k: first, ..self.key };
        // Iterations of the piece, and of its first half, not taken by earlier counters.
        let (mut all, mut places) = (2 * half, half);
        let mut right = Vec::with_capacity(left.len());
        for (group, (before, within)) in left.iter_mut().enumerate() {
            let salt = salt::HALF + 64 * group as u64 + u64::from(level);
            let hit = hypergeometric(all, *within, places, draw.unit(salt));
            all -= *within;
            places -= hit;
            right.push((*before + hit, *within - hit));
            *within = hit;
        }
        (left, right)
    }
}

impl Drawn {
    /// Creates a numbering at the start of a stream; for the parameters see [`Numbering::drawn`].
    fn new(shares: Vec<f64>, seed: u64, stream: u64) -> Self {
        let before = vec![0; shares.len()];
        Self {
            leaf_before: before.clone(),
            row: DyadicSampler::new(Counts { key: Draw::new(seed, stream, 0), shares, before }),
            leaf: u64::MAX,
            uses: Vec::new(),
        }
    }

    /// Returns the counter that iteration `n` uses, with the first number that it takes. `n` must not decrease from
    /// call to call.
    fn at(&mut self, n: u64) -> Use {
        if n >> LEAF != self.leaf >> LEAF {
            let piece = self.row.leaf(n);
            self.draw_leaf(&piece);
        }
        let group = self.uses[(n - self.leaf) as usize];
        let number = if group < self.leaf_before.len() { self.counted((n - self.leaf) as usize, group) } else { 0 };
        Use { group, number }
    }

    /// Returns the number of uses of counter `group` up to and including iteration `n`, which is in the current leaf.
    fn taken(&self, n: u64, group: usize) -> u64 {
        self.counted((n + 1 - self.leaf) as usize, group)
    }

    /// Returns the uses of counter `group` before the leaf and in its first `first` iterations.
    fn counted(&self, first: usize, group: usize) -> u64 {
        self.leaf_before[group] + self.uses[..first].iter().filter(|other| **other == group).count() as u64
    }

    /// Makes a leaf the current one, and assigns counters to its iterations at random, by drawing from an urn.
    fn draw_leaf(&mut self, piece: &Piece<Vec<(u64, u64)>>) {
        self.leaf = piece.first;
        self.uses.clear();
        self.leaf_before.clear();
        self.leaf_before.extend(piece.total.iter().map(|(before, _)| before));
        let mut urn: Vec<u64> = piece.total.iter().map(|(_, within)| *within).collect();
        for place in 0..1u64 << LEAF {
            let rest = (1 << LEAF) - place;
            let mut ball = (Draw { k: piece.first + place, ..self.row.law().key }.unit(salt::USE) * rest as f64) as u64;
            let group = urn.iter().position(|balls| {
                let here = ball < *balls;
                ball = ball.saturating_sub(*balls);
                here
            });
            if let Some(group) = group {
                urn[group] -= 1;
            }
            self.uses.push(group.unwrap_or(urn.len()));
        }
    }
}

/// Draws the number of successes in `n` trials of probability `p`, by inversion of a uniform number in [0, 1).
fn binomial(n: u64, p: f64, uniform: f64) -> u64 {
    if p >= 1.0 {
        return n;
    }
    if p <= 0.0 {
        return 0;
    }
    let mode = (((n + 1) as f64 * p) as u64).min(n);
    let at_mode = math::exp(ln_choose(n, mode) + mode as f64 * math::ln(p) + (n - mode) as f64 * math::ln_1p(-p));
    let odds = p / (1.0 - p);
    from_mode(uniform, (0, mode, n), at_mode, |x| (n - x) as f64 / (x + 1) as f64 * odds)
}

/// Draws from a hypergeometric distribution by inversion of a uniform number in [0, 1): the number of marked
/// balls among `places` balls drawn from `all`, of which `marked` are marked.
fn hypergeometric(all: u64, marked: u64, places: u64, uniform: f64) -> u64 {
    let (least, most) = ((places + marked).saturating_sub(all), places.min(marked));
    let mode = (((places + 1) * (marked + 1)) / (all + 2)).clamp(least, most);
    let at_mode = math::exp(ln_choose(marked, mode) + ln_choose(all - marked, places - mode) - ln_choose(all, places));
    from_mode(uniform, (least, mode, most), at_mode, |x| {
        let (hit, missed) = ((marked - x) as f64 * (places - x) as f64, (x + 1) as f64);
        hit / (missed * (all + x + 1 - marked - places) as f64)
    })
}

/// Returns the value of a distribution at the uniform number `uniform` in [0, 1).
/// Goes outwards from the mode on both sides until the probabilities add up to `uniform`. The number of steps is on the
/// order of a standard deviation. `bounds`: minimum, mode and maximum. `at_mode`: probability of the mode. `ratio(x)`:
/// probability of x + 1 divided by that of x.
fn from_mode(uniform: f64, bounds: (u64, u64, u64), at_mode: f64, ratio: impl Fn(u64) -> f64) -> u64 {
    let (least, mode, most) = bounds;
    let (mut above, mut below) = ((mode, at_mode), (mode, at_mode));
    let mut rest = uniform - at_mode;
    while rest >= 0.0 {
        if above.0 == most && below.0 == least {
            // Only rounding errors are left.
            return mode;
        }
        if above.0 < most {
            above = (above.0 + 1, above.1 * ratio(above.0));
            rest -= above.1;
            if rest < 0.0 {
                return above.0;
            }
        }
        if below.0 > least {
            below = (below.0 - 1, below.1 / ratio(below.0 - 1));
            rest -= below.1;
            if rest < 0.0 {
                return below.0;
            }
        }
    }
    mode
}

/// Returns the natural logarithm of the binomial coefficient of `n` and `k`; panics if `n` exceeds the size of a
/// block, 65,536, or `k` exceeds `n`.
fn ln_choose(n: u64, k: u64) -> f64 {
    static FACTORIALS: OnceLock<Vec<f64>> = OnceLock::new();
    let ln_factorial = FACTORIALS.get_or_init(|| {
        let terms = 0..=1u32 << Counts::BLOCK;
        let sums = terms.scan(0.0, |sum: &mut f64, n| {
            *sum += math::ln(f64::from(n.max(1)));
            Some(*sum)
        });
        sums.collect()
    });
    ln_factorial[n as usize] - ln_factorial[k as usize] - ln_factorial[(n - k) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = (3 << Counts::BLOCK) + 77;

    /// Returns the uses of the first iterations of a mix.
    fn all(shares: &[f64], seed: u64) -> Vec<Use> {
        let mut numbering = Numbering::drawn(shares.to_vec(), seed, 4);
        (0..MANY).map(|n| numbering.at(n)).collect()
    }

    #[test]
    fn a_counter_numbers_its_uses_consecutively() {
        let shares = [0.05, 0.3];
        let mut numbering = Numbering::drawn(shares.to_vec(), 1, 4);
        let mut counts = [0, 0];
        for n in 0..MANY {
            let Use { group, number } = numbering.at(n);
            if let Some(count) = counts.get_mut(group) {
                assert_eq!(number, *count, "iteration {n}");
                *count += 1;
            }
            assert_eq!([0, 1].map(|group| numbering.taken(n, group)), counts);
        }
    }

    #[test]
    fn skipping_iterations_does_not_change_uses_and_numbers() {
        let alone = all(&[0.05, 0.5], 2);
        for stride in [2, 6, 8, 10_000, 100_000] {
            for first in [0, 1, stride - 1] {
                let mut numbering = Numbering::drawn(vec![0.05, 0.5], 2, 4);
                for n in (first..MANY).step_by(stride as usize) {
                    assert_eq!(numbering.at(n), alone[n as usize], "iteration {n}, every {stride}th");
                }
            }
        }
    }

    #[test]
    fn uses_are_independent_and_as_frequent_as_the_mix_says() {
        for share in [0.05, 0.5, 0.95] {
            let uses: Vec<f64> = all(&[share], 3).iter().map(|used| if used.group == 0 { 1.0 } else { 0.0 }).collect();
            let n = uses.len() as f64;
            let deviation = (share * (1.0 - share) / n).sqrt();
            let mean = uses.iter().sum::<f64>() / n;
            assert!((mean - share).abs() < 4.0 * deviation, "{mean} for {share}");
            for apart in [1, 2, 16, 31, 32, 1024] {
                let pairs = uses.iter().zip(&uses[apart..]);
                let covariance = pairs.map(|(one, two)| (one - share) * (two - share)).sum::<f64>() / n;
                let correlation = covariance / (share * (1.0 - share));
                assert!(correlation.abs() < 4.0 / n.sqrt(), "{share}: {correlation} for {apart} apart");
            }
            // The variance in windows of any width is binomial.
            for width in [8, 64, 4096] {
                let windows = uses.chunks_exact(width).map(|window| window.iter().sum::<f64>()).collect::<Vec<_>>();
                let expected = width as f64 * share;
                let count = windows.len() as f64;
                let variance = windows.iter().map(|sum| (sum - expected).powi(2)).sum::<f64>() / count;
                let off = variance / (expected * (1.0 - share)) - 1.0;
                assert!(off.abs() < 5.0 * (2.0 / count).sqrt() + 0.02, "{share}: windows of {width}: {off}");
            }
        }
    }

    #[test]
    fn a_counter_that_every_iteration_uses_takes_every_number() {
        for mut numbering in [Numbering::Every(1), Numbering::drawn(vec![1.0], 1, 1)] {
            assert!((0..100_000).all(|n| numbering.at(n) == Use { group: 0, number: n }));
        }
        assert_eq!(Numbering::Every(3).at(7).number, 21);
        assert_eq!(Numbering::Every(3).taken(7, 0), 24);
    }

    /// `hypergeometric` and `binomial` draw with the exact probabilities.
    #[test]
    fn numbers_of_a_half_have_the_law_that_they_are_drawn_from() {
        // Exact probabilities for 6 marked balls among 16, with 8 drawn.
        let probability = |x: u64| (ln_choose(6, x) + ln_choose(10, 8 - x) - ln_choose(16, 8)).exp();
        let n = 100_000u64;
        let mut counts = [0u64; 7];
        for k in 0..n {
            counts[hypergeometric(16, 6, 8, (k as f64 + 0.5) / n as f64) as usize] += 1;
        }
        for (x, count) in (0u64..).zip(counts) {
            let expected = probability(x) * n as f64;
            assert!((count as f64 - expected).abs() < 2.0, "{x}: {count}, not {expected}");
        }
        let mut counts = [0u64; 11];
        for k in 0..n {
            counts[binomial(10, 0.3, (k as f64 + 0.5) / n as f64) as usize] += 1;
        }
        for (x, count) in (0u64..).zip(counts) {
            let expected = (ln_choose(10, x) + x as f64 * 0.3f64.ln() + (10 - x) as f64 * 0.7f64.ln()).exp() * n as f64;
            assert!((count as f64 - expected).abs() < 2.0, "{x}: {count}, not {expected}");
        }
        assert_eq!([hypergeometric(64, 0, 32, 0.7), hypergeometric(64, 64, 32, 0.7)], [0, 32]);
    }
}
