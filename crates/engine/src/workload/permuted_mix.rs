//! Mixes with whole weights.
//!
//! With strict alternation, each client repeats its own permutation of a mix's operations. The permutation depends on
//! the seed, the stream and the client. Clients thus send different operations at a time, and all operations occur
//! exactly in proportion to their weights.

use crate::util::draw::Draw;

/// Maximum sum of the weights.
pub const MOST: u64 = 10_000;

/// Separates the draws of a permutation from those of requests, which have smaller salts.
const SALT: u64 = 1 << 40;

/// Returns the operation indices, each repeated by its weight. Refuses a weight that is not an integer of at least 1,
/// and a sum above 10,000.
pub fn places(weights: &[f64]) -> Result<Vec<usize>, String> {
    let mut places = Vec::new();
    for (place, weight) in weights.iter().enumerate() {
        if weight.fract() != 0.0 || *weight < 1.0 || *weight > MOST as f64 {
            return Err(format!("a weight of {weight} in a mix with an order: give whole numbers"));
        }
        places.extend(std::iter::repeat_n(place, *weight as usize));
    }
    if places.len() as u64 > MOST {
        return Err(format!("weights that sum to {} in a mix with an order: {MOST} at most", places.len()));
    }
    Ok(places)
}

/// Returns the operation indices `places` in the order of client number `client`.
/// `seed`, `stream` (its key) and `client` determine the order. All orders are equally likely (Fisher and Yates).
pub fn permuted(places: &[usize], seed: u64, stream: u64, client: u64) -> Vec<usize> {
    let draw = Draw::new(seed, stream, client);
    let mut order = places.to_vec();
    for last in (1..order.len()).rev() {
        let any = (u128::from(draw.bits(SALT + last as u64)) * (last as u128 + 1)) >> 64;
        order.swap(last, any as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_order_is_a_permutation_that_depends_on_seed_stream_and_client_alone() {
        let all = places(&[1.0; 12]).unwrap();
        let order = permuted(&all, 1, 2, 3);
        assert_eq!(order, permuted(&all, 1, 2, 3));
        for other in [permuted(&all, 2, 2, 3), permuted(&all, 1, 3, 3), permuted(&all, 1, 2, 4)] {
            assert_ne!(order, other);
        }
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, all);
    }

    #[test]
    fn every_order_of_three_is_equally_frequent_over_clients() {
        let mut counts = BTreeMap::new();
        for client in 0..12_000 {
            *counts.entry(permuted(&[0, 1, 2], 7, 1, client)).or_insert(0) += 1;
        }
        let chi2: f64 = counts.values().map(|&count| (f64::from(count) - 2000.0).powi(2) / 2000.0).sum();
        assert_eq!(counts.len(), 6);
        assert!(chi2 < 20.52, "chi-squared {chi2} with 5 degrees of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn an_operation_comes_as_often_as_it_weighs_and_weights_are_whole() {
        assert_eq!(places(&[2.0, 1.0]).unwrap(), [0, 0, 1]);
        assert!(places(&[0.5, 1.0]).unwrap_err().contains("whole numbers"));
        assert!(places(&[9_000.0, 1_001.0]).unwrap_err().contains("10000 at most"));
    }
}
