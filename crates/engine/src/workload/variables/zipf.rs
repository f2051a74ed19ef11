//! Zipf distribution over n items: item i, from 0, is drawn in proportion to (i + 1)^-exponent.
//!
//! [`Exact`] draws from it by rejection-inversion (Hoermann and Derflinger 1996), for any exponent above 0.
//! [`Ycsb`] is the approximation by Gray et al. 1994 in the Yahoo! Cloud Serving Benchmark, for exponents
//! below 1, for results comparable with that benchmark. Set-up and draws take constant time in n.

use crate::util::draw::{Draw, mix};
use crate::util::math;

/// Scrambled YCSB keys are ranks among this many items, regardless of the number of keys.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// YCSB's zeta sum for these items, at an exponent of .99.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;
/// From this many items, a sum can be continued by the Euler-Maclaurin formula with an error below 1e-10.
const FEW: u64 = 100;
/// YCSB's exponent.
pub const YCSB_EXPONENT: f64 = 0.99;

/// Either form.
#[derive(Clone, Copy, Debug)]
pub enum Zipf {
    Exact(Exact),
    Ycsb(Ycsb),
}

impl Zipf {
    /// Returns the distribution over `n` items, with the same exponent and form.
    pub fn of(&self, n: u64) -> Self {
        match self {
            Self::Exact(exact) => Self::Exact(Exact::new(n, exact.exponent)),
            Self::Ycsb(ycsb) if n < ycsb.n as u64 => Self::Ycsb(Ycsb::new(n, 1.0 - 1.0 / ycsb.alpha)),
            Self::Ycsb(ycsb) => Self::Ycsb(ycsb.grown(n)),
        }
    }

    /// Draws an item in [0, n); low items are the most frequent. `salt` separates the draw from the request's others.
    #[inline]
    pub fn item(&self, draw: &Draw, salt: u64) -> u64 {
        match self {
            Self::Exact(exact) => exact.item(draw, salt),
            Self::Ycsb(ycsb) => ycsb.item(draw.unit(salt)),
        }
    }
}

/// Exact Zipf distribution.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    n: f64,
    exponent: f64,
    /// Integral of the hat at n + 1/2, and the width from its start to there.
    last: f64,
    width: f64,
    /// Points within this distance of an item's right end are always accepted.
    squeeze: f64,
}

impl Exact {
    /// Creates the distribution over `n` items, at least 1, with an exponent above 0.
    pub fn new(n: u64, exponent: f64) -> Self {
        let n = n as f64;
        let last = integral(n + 0.5, exponent);
        let width = integral(1.5, exponent) - 1.0 - last;
        let squeeze = 2.0 - inverse(integral(2.5, exponent) - math::powf(2f64, -exponent), exponent);
        Self { n, exponent, last, width, squeeze }
    }

    /// Draws an item in [0, n) by rejection. `salt` separates the draw from the request's others.
    fn item(&self, draw: &Draw, salt: u64) -> u64 {
        let mut salt = salt;
        // Fewer than one point in ten is rejected, for any exponent.
        loop {
            let under = self.last + draw.unit(salt) * self.width;
            let x = inverse(under, self.exponent);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.squeeze
                || under >= integral(rank + 0.5, self.exponent) - math::powf(rank, -self.exponent)
            {
                return rank as u64 - 1;
            }
            salt = mix(salt.wrapping_add(1));
        }
    }
}

/// Returns the integral of t^-exponent for t from 1 to x, numerically stable near exponent 1.
fn integral(x: f64, exponent: f64) -> f64 {
    let log = math::ln(x);
    let scaled = (1.0 - exponent) * log;
    let factor = if scaled.abs() > 1e-8 { math::exp_m1(scaled) / scaled } else { 1.0 + scaled / 2.0 };
    log * factor
}

/// Returns the x at which [`integral`] with this exponent is `area`.
fn inverse(area: f64, exponent: f64) -> f64 {
    let scaled = (area * (1.0 - exponent)).max(-1.0);
    let factor = if scaled.abs() > 1e-8 { math::ln_1p(scaled) / scaled } else { 1.0 - scaled / 2.0 };
    math::exp(area * factor)
}

/// YCSB's approximation.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    n: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// Upper bound of u zeta(n) for item 1.
    second: f64,
}

impl Ycsb {
    /// Creates the distribution, for n of at least 1 and an exponent in (0, 1).
    pub fn new(n: u64, exponent: f64) -> Self {
        Self::with_zeta(n, exponent, zeta(n, exponent))
    }

    /// Returns the distribution over `n` items, more than before. As in YCSB, `eta` keeps the original number of
    /// items.
    pub fn grown(&self, n: u64) -> Self {
        let exponent = 1.0 - 1.0 / self.alpha;
        let from = self.n as u64;
        // Continue the known sum, because each request of a growing distribution does this.
        let zeta = if from < FEW { zeta(FEW.min(n), exponent) } else { self.zeta };
        let zeta = extended(zeta, from.max(FEW.min(n)), n, exponent);
        let eta = eta(self.n, exponent, self.second, zeta);
        Self { n: n as f64, zeta, eta, ..*self }
    }

    /// Returns the distribution from which YCSB draws before scrambling: 10^10 items with exponent 0.99, regardless of
    /// the number of keys.
    pub fn before_scrambling() -> Self {
        Self::with_zeta(SCRAMBLED_ITEMS, YCSB_EXPONENT, SCRAMBLED_ZETA)
    }

    /// Creates the distribution over `n` items from its sum `zeta`, which the function [`zeta`] returns.
    fn with_zeta(n: u64, exponent: f64, zeta: f64) -> Self {
        let second = 1.0 + math::powf(0.5f64, exponent);
        let n = n as f64;
        let eta = eta(n, exponent, second, zeta);
        Self { n, zeta, alpha: 1.0 / (1.0 - exponent), eta, second }
    }

    /// Returns the item in [0, n) for a uniform number in [0, 1).
    pub fn item(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < self.second {
            // With one item, the result is always item 0.
            1.min(self.n as u64 - 1)
        } else {
            let item = self.n * math::powf(self.eta * unit - self.eta + 1.0, self.alpha);
            (item as u64).min(self.n as u64 - 1)
        }
    }
}

/// Returns Gray's coefficient for `n` items, whose sum of weights is `zeta`. `second`: sum of the weights of the first
/// two items.
fn eta(n: f64, exponent: f64, second: f64, zeta: f64) -> f64 {
    (1.0 - math::powf(2.0 / n, 1.0 - exponent)) / (1.0 - second / zeta)
}

/// Returns the sum of i^-exponent for i from 1 to n: the first thousand terms directly, the others by the
/// Euler-Maclaurin formula with an error below 1e-12.
fn zeta(n: u64, exponent: f64) -> f64 {
    let head = n.min(1000);
    let sum: f64 = (1..=head).rev().map(|i| math::powf(i as f64, -exponent)).sum();
    extended(sum, head, n, exponent)
}

/// Returns the sum of i^-exponent for i from 1 to `n`, given the sum up to `head`, which is `n` or at least [`FEW`].
fn extended(sum: f64, head: u64, n: u64, exponent: f64) -> f64 {
    let term = |i: f64| math::powf(i, -exponent);
    let (from, to) = (head as f64, n as f64);
    let slope = |i: f64| -exponent * math::powf(i, -exponent - 1.0);
    let ends = (term(to) - term(from)) / 2.0 + (slope(to) - slope(from)) / 12.0;
    sum + integral(to, exponent) - integral(from, exponent) + ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::text::fnv;

    const N: u64 = 100_000;

    /// Returns chi-squared over the first items and all others together.
    fn chi_squared(zipf: &Zipf, n: u64, exponent: f64, bins: usize) -> f64 {
        let mut counts = vec![0.0; bins + 1];
        for k in 0..N {
            let item = zipf.item(&Draw::new(42, 1, k), 7);
            assert!(item < n);
            counts[(item as usize).min(bins)] += 1.0;
        }
        let all: f64 = zeta(n, exponent);
        let mut shares: Vec<f64> = (1..=bins).map(|i| (i as f64).powf(-exponent) / all).collect();
        shares.push(1.0 - shares.iter().sum::<f64>());
        let expected = |share: &f64| share * N as f64;
        counts.iter().zip(&shares).map(|(count, share)| (count - expected(share)).powi(2) / expected(share)).sum()
    }

    #[test]
    fn the_exact_form_follows_zipfs_law_for_few_and_many_items_and_any_exponent() {
        for (n, exponent) in [(100, 0.99), (100, 1.0), (1000, 0.5), (1000, 2.0), (10_000_000_000, 0.99), (50, 0.01)] {
            let chi2 = chi_squared(&Zipf::Exact(Exact::new(n, exponent)), n, exponent, 20);
            assert!(chi2 < 45.31, "{n} items, exponent {exponent}: chi-squared {chi2}, 20 degrees of freedom, 99.9 %");
        }
    }

    #[test]
    fn the_ycsb_form_is_right_in_its_first_two_items_and_only_near_in_the_rest() {
        let (n, exponent) = (1000, YCSB_EXPONENT);
        let ycsb = Zipf::Ycsb(Ycsb::new(n, exponent));
        let two = chi_squared(&ycsb, n, exponent, 2);
        assert!(two < 13.82, "chi-squared {two} with 2 degrees of freedom exceeds its 99.9 % quantile");
        assert!(chi_squared(&ycsb, n, exponent, 20) > 45.31);
    }

    #[test]
    fn the_sum_of_ten_thousand_million_items_is_the_published_one() {
        assert!((zeta(SCRAMBLED_ITEMS, YCSB_EXPONENT) - SCRAMBLED_ZETA).abs() < 1e-5);
        let direct: f64 = (1..=5000).rev().map(|i| f64::from(i).powf(-0.7)).sum();
        assert!((zeta(5000, 0.7) - direct).abs() < 1e-10);
    }

    /// A distribution grown to n items has the sum of a new one over n items.
    #[test]
    fn a_law_that_grew_is_the_law_of_its_items() {
        for from in [10, 100, 999, 5000] {
            let grown = Ycsb::new(from, YCSB_EXPONENT).grown(9000);
            assert!((grown.zeta - Ycsb::new(9000, YCSB_EXPONENT).zeta).abs() < 1e-10);
        }
    }

    #[test]
    fn keys_hash_as_ycsb_has_them() {
        // "user" and these are the first keys of every YCSB data set.
        assert_eq!(
            [0, 1, 2].map(fnv),
            [6_284_781_860_667_377_211, 8_517_097_267_634_966_620, 1_820_151_046_732_198_393]
        );
    }

    #[test]
    fn the_ycsb_form_gives_the_items_of_grays_formula() {
        let ycsb = Ycsb::new(1000, YCSB_EXPONENT);
        // u zeta(1000) = 7.7289 u: below 1 item 0, below 1.5035 item 1.
        assert_eq!([0.0, 0.129, 0.130, 0.194].map(|unit| ycsb.item(unit)), [0, 0, 1, 1]);
        assert_eq!(ycsb.item(1.0 - f64::EPSILON), 999);
        assert_eq!(Ycsb::new(1, YCSB_EXPONENT).item(0.99), 0);
    }
}
