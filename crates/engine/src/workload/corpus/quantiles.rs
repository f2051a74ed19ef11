//! Distribution defined by quantiles, drawn by inversion.

/// Entries in the table of the inverse, which is linear between them.
const STEPS: usize = 1024;

/// Inverse of a piecewise linear distribution function.
#[derive(Debug)]
pub struct Quantiles(Box<[f64]>);

impl Quantiles {
    /// Creates the inverse from (share, value) pairs: the shares increase from 0 to 1, the values do not decrease.
    pub fn new(points: &[(f64, f64)]) -> Self {
        let value = |step: usize| {
            let share = step as f64 / STEPS as f64;
            let upper = points.partition_point(|&(p, _)| p < share).clamp(1, points.len() - 1);
            let ((p0, v0), (p1, v1)) = (points[upper - 1], points[upper]);
            v0 + (v1 - v0) * (share - p0) / (p1 - p0)
        };
        Self((0..=STEPS).map(value).collect())
    }

    /// Returns the quantile for a share `unit`, in [0, 1].
    #[inline]
    pub fn at(&self, unit: f64) -> f64 {
        let place = unit * STEPS as f64;
        let step = (place as usize).min(STEPS - 1);
        let (low, high) = (self.0[step], self.0[step + 1]);
        low + (high - low) * (place - step as f64)
    }
}

/// Shifts `unit` by `by`, in [-1, 1], and reflects it at 0 and 1. A uniform number shifted by a symmetric one
/// stays uniform. Two quantities thus get a rank correlation while each keeps its distribution.
#[inline]
pub fn folded(unit: f64, by: f64) -> f64 {
    let moved = (unit + by).abs();
    if moved > 1.0 { 2.0 - moved } else { moved }
}

/// Returns the value that `unit`, in [0, 1), selects in proportion to the shares, which sum to 1; the first value if
/// rounding leaves none.
#[inline]
pub fn pick<T: Copy>(shares: &[(f64, T)], mut unit: f64) -> T {
    for (share, value) in shares {
        if unit < *share {
            return *value;
        }
        unit -= share;
    }
    shares[0].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::draw::Draw;

    /// The distribution passes through its points, and is linear between them.
    #[test]
    fn the_given_quantiles_come_back_and_lines_join_them() {
        let quantiles = Quantiles::new(&[(0.0, 1.0), (0.25, 2.0), (0.5, 10.0), (1.0, 20.0)]);
        for (unit, value) in [(0.0, 1.0), (0.125, 1.5), (0.25, 2.0), (0.5, 10.0), (0.75, 15.0), (1.0, 20.0)] {
            assert!((quantiles.at(unit) - value).abs() < 1e-9, "{unit}");
        }
    }

    #[test]
    fn a_folded_uniform_number_is_uniform() {
        let n = 100_000;
        let mut bins = [0.0f64; 20];
        for k in 0..n {
            let draw = Draw::new(42, 0, k);
            bins[(folded(draw.unit(1), 0.3 * (2.0 * draw.unit(2) - 1.0)) * 20.0) as usize] += 1.0;
        }
        let expected = n as f64 / 20.0;
        let chi2: f64 = bins.iter().map(|bin| (bin - expected).powi(2) / expected).sum();
        assert!(chi2 < 43.82, "chi-squared {chi2} with 19 degrees of freedom exceeds its 99.9 % quantile");
    }
}
