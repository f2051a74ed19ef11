//! Id conflicts: with a given probability, a document gets the id of an earlier one.
//!
//! As in Rally's bulk parameters, a document without a conflict has a new id. A conflicting document reuses any earlier
//! id, or preferably a recent one. Rally keeps a list of ids per client. Here the id of document d is a pure function
//! of (seed, stream, d), so any number of generators send the same ids. Whether an earlier document has a new id is
//! recomputed.

use loadframe_engine::util::draw::{Draw, mix};

/// Bias towards recent ids. The relative distance back is exponential, with this factor times the recency as its rate.
/// The value is Rally's.
const SLOPE: f64 = 30.0;
/// Number of draws for a document with a new id. If all fail, the nearest one before the last draw is used.
const DRAWS: u64 = 64;

/// Number of the draw whether a document conflicts.
const CONFLICTS: u64 = 0x6c6f_6164_0001_0000;
/// First number of the draws of an earlier document.
const EARLIER: u64 = 0x6c6f_6164_0002_0000;
/// Number of the draw for the order of the ids.
const ORDER: u64 = 0x6c6f_6164_0003_0000;

/// Which documents conflict, and with which id.
#[derive(Clone, Copy, Debug)]
pub struct Conflicts {
    /// Whether ids ascend with the documents; otherwise their order is random.
    pub sequential: bool,
    /// Probability of a conflict per document, 0 to 1.
    pub probability: f64,
    /// Preference for recent ids: 0 for none, up to 1.
    pub recency: f64,
    /// Number of documents.
    pub documents: u64,
}

impl Conflicts {
    /// Returns the id of document number `document`, and whether an earlier document has it.
    /// `document` must be below the number of documents. `draw` gives the seed and the stream.
    pub fn id(&self, draw: &Draw, document: u64) -> (u64, bool) {
        let again = self.again(draw, document);
        let number = if again { self.earlier(draw, document) } else { document };
        (if self.sequential { number } else { self.shuffled(draw, number) }, again)
    }

    /// Draws whether a document gets the id of an earlier one; false for document 0.
    fn again(&self, draw: &Draw, document: u64) -> bool {
        document > 0 && Draw { k: document, ..*draw }.unit(CONFLICTS) < self.probability
    }

    /// Returns the number of a random earlier document with a new id, more often a recent one, by `recency`.
    /// `document` must be above 0. Returns 0 if every document conflicts.
    fn earlier(&self, draw: &Draw, document: u64) -> u64 {
        if self.probability >= 1.0 {
            return 0;
        }
        let mut number = 0;
        for attempt in 0..DRAWS {
            number = self.before(Draw { k: document, ..*draw }.unit(EARLIER + attempt), document);
            if !self.again(draw, number) {
                return number;
            }
        }
        while self.again(draw, number) {
            number -= 1;
        }
        number
    }

    /// Maps `unit`, a number in [0, 1), to one of the first `count` documents, more often a recent one, by `recency`.
    /// `count` must be above 0.
    fn before(&self, unit: f64, count: u64) -> u64 {
        if self.recency == 0.0 {
            return ((unit * count as f64) as u64).min(count - 1);
        }
        let back = (-(-unit).ln_1p() / (SLOPE * self.recency)).min(1.0);
        ((count - 1) as f64 * (1.0 - back)).round() as u64
    }

    /// Returns the place of document `number` in a random permutation of the documents: four rounds of a Feistel
    /// network over the next power of 4, repeated until the result is below the number of documents.
    fn shuffled(&self, draw: &Draw, mut number: u64) -> u64 {
        let half = (u64::BITS - self.documents.leading_zeros()).div_ceil(2);
        let low = (1 << half) - 1;
        let key = Draw { k: 0, ..*draw }.bits(ORDER);
        loop {
            let (mut left, mut right) = (number >> half, number & low);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(key ^ (round << 56) ^ right) & low));
            }
            number = left << half | right;
            if number < self.documents {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 50_000;

    /// Returns conflicts among 50,000 documents.
    fn conflicts(sequential: bool, probability: f64, recency: f64) -> Conflicts {
        Conflicts { sequential, probability, recency, documents: N }
    }

    /// Returns the id of each document, and whether it was used before.
    fn ids(conflicts: Conflicts) -> Vec<(u64, bool)> {
        (0..N).map(|document| conflicts.id(&Draw::new(42, 1, 0), document)).collect()
    }

    #[test]
    fn a_conflict_has_an_id_that_was_sent_before_and_nothing_else_has() {
        for (sequential, recency) in [(true, 0.0), (true, 0.7), (false, 0.0), (false, 1.0)] {
            let mut sent = vec![false; N as usize];
            for (id, again) in ids(conflicts(sequential, 0.25, recency)) {
                assert_eq!(std::mem::replace(&mut sent[id as usize], true), again);
            }
        }
    }

    #[test]
    fn conflicts_are_as_frequent_as_asked_for() {
        for probability in [0.0, 0.25, 0.9, 1.0] {
            let share =
                ids(conflicts(true, probability, 0.0)).iter().filter(|(_, again)| *again).count() as f64 / N as f64;
            let error = (probability * (1.0 - probability) / N as f64).sqrt();
            assert!((share - probability).abs() <= 4.0 * error + 2.0 / N as f64, "{share} of {probability}");
        }
        assert!(ids(conflicts(true, 1.0, 0.5)).iter().all(|(id, _)| *id == 0), "the first id is the only one");
    }

    #[test]
    fn without_recency_each_new_id_is_as_likely() {
        let conflicts = conflicts(true, 0.5, 0.0);
        // Reused ids below N / 2, drawn by the later documents, in ten equal parts.
        let mut parts = [0.0; 10];
        for (id, again) in ids(conflicts).into_iter().skip(N as usize / 2) {
            if again && id < N / 2 {
                parts[(id * 10 / (N / 2)) as usize] += 1.0;
            }
        }
        let expected = parts.iter().sum::<f64>() / 10.0;
        let chi2: f64 = parts.iter().map(|part| (part - expected).powi(2) / expected).sum();
        // The parts differ a little in their number of new ids, so the variance slightly exceeds that of chi-squared
        // with 9 degrees of freedom.
        assert!(chi2 < 40.0, "{parts:?}");
    }

    #[test]
    fn recency_draws_ids_from_shortly_before() {
        for recency in [0.1, 0.5, 1.0] {
            let back = |(document, (id, again)): (usize, (u64, bool))| {
                again.then(|| 1.0 - id as f64 / (document as f64 - 1.0))
            };
            let all: Vec<f64> =
                ids(conflicts(true, 0.25, recency)).into_iter().enumerate().skip(1000).filter_map(back).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            // The mean of an exponential distribution truncated at 1.
            let rate = SLOPE * recency;
            let expected = (1.0 - (-rate).exp()) / rate;
            assert!((mean / expected - 1.0).abs() < 0.05, "{mean} and not {expected}");
        }
    }

    #[test]
    fn in_random_order_every_id_comes_once() {
        for documents in [1, 2, 3, 4, 5, 1000, 4096, 4097] {
            let conflicts = Conflicts { sequential: false, probability: 0.0, recency: 0.0, documents };
            let mut ids: Vec<u64> =
                (0..documents).map(|document| conflicts.id(&Draw::new(3, 1, 0), document).0).collect();
            assert!(documents < 1000 || ids.windows(2).filter(|pair| pair[0] < pair[1]).count() < 2 * ids.len() / 3);
            ids.sort_unstable();
            assert_eq!(ids, (0..documents).collect::<Vec<_>>());
        }
    }

    /// Checks that ids depend on the seed and the stream of a draw, and not on its number.
    #[test]
    fn the_seed_and_the_stream_decide_and_not_the_request() {
        let conflicts = conflicts(false, 0.25, 0.5);
        let ids = |draw: Draw| (0..1000).map(|document| conflicts.id(&draw, document)).collect::<Vec<_>>();
        assert_eq!(ids(Draw::new(1, 2, 3)), ids(Draw::new(1, 2, 4)));
        assert_ne!(ids(Draw::new(1, 2, 3)), ids(Draw::new(2, 2, 3)));
        assert_ne!(ids(Draw::new(1, 2, 3)), ids(Draw::new(1, 3, 3)));
    }
}
