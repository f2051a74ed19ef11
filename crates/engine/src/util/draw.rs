//! Stateless randomness: the draws of request *k* are a pure function of (seed, stream, k).
//!
//! Generators that stride a schedule need neither communication nor shared state, because a draw depends only
//! on the request's number. The bits come from the finaliser of SplitMix64 (Steele, Lea and Flood 2014),
//! applied to a mix of the key's parts. It is good enough as a hash of a counter.
//!
//! The client that sends request *k* of a closed stream depends on the times of the answers. Only draws per
//! user depend on the client. Draws among records inserted by the load depend on the inserts finished so far;
//! see [`crate::client::counters`].

use crate::util::trace::Trace;

/// Maximum number of journey loops with counting variables.
pub const LOOPS: usize = 4;

/// Key of a request: its seed, stream and number in that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The run's seed.
    pub seed: u64,
    /// The key of the stream: a hash of the names of its phase and of the stream.
    pub stream: u64,
    /// The number of the request in the stream, over all generators.
    pub k: u64,
    /// The number of the request's iteration: of the journey, or `k` without one.
    pub iteration: u64,
    /// The number of the client that sends it.
    pub user: u64,
    /// The number that it takes from its counter, if it uses one: the number of earlier requests of its
    /// stream that used the counter.
    pub number: u64,
    /// The known number of settled inserts of the counter that it draws from. Fixed at the start of the
    /// request, so that its draws do not change.
    pub settled: u64,
    /// Its position in the round over the nodes: successive requests of one operation go to successive nodes.
    pub turn: u64,
    /// Whether its client may switch nodes. Closed-loop clients keep their node.
    pub roams: bool,
    /// The user's simulated time, milliseconds since 1970.
    pub instant: i64,
    /// Number of the user's earlier passes through each loop with a counting variable.
    pub passes: [u32; LOOPS],
    /// The trace context that the request carries, if it is sampled.
    pub trace: Option<Trace>,
}

impl Draw {
    /// Creates the key of request `k` of a stream, as a separate iteration of the first client. `seed`: the run's.
    /// `stream`: the stream's key.
    pub fn new(seed: u64, stream: u64, k: u64) -> Self {
        let passes = [0; LOOPS];
        Self {
            seed,
            stream,
            k,
            iteration: k,
            user: 0,
            number: 0,
            settled: 0,
            turn: k,
            roams: false,
            instant: 0,
            passes,
            trace: None,
        }
    }

    /// Returns 64 uniform random bits of the request; a different `salt` gives independent bits.
    #[inline]
    pub fn bits(&self, salt: u64) -> u64 {
        let key = mix(self.seed ^ mix(self.stream.wrapping_add(GOLDEN)));
        mix(mix(key ^ self.k.wrapping_mul(GOLDEN)) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// Returns the number by which client `client` selects one of several nodes: its own number if it keeps its node
    /// (`is_fixed`, and the client may not switch), otherwise the request's turn.
    #[inline]
    pub fn turn_of(&self, client: u64, is_fixed: bool) -> u64 {
        if is_fixed && !self.roams { client } else { self.turn }
    }

    /// Returns a uniform number in [0, 1) with 53 random bits; a different `salt` gives an independent number.
    #[inline]
    pub fn unit(&self, salt: u64) -> f64 {
        (self.bits(salt) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns the trace context of an attempt of the request. `run` separates runs with the same seed. `salt` and the
    /// next two salts separate the ids from other draws.
    pub fn trace_context(&self, salt: u64, run: u64, attempt: u32) -> Trace {
        let bits = |part: u64| mix(self.bits(salt + part) ^ run);
        Trace::new((bits(0), bits(1)), mix(bits(2).wrapping_add(attempt.into())), attempt)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles 64 bits by the finaliser of SplitMix64: a bijection in which every input bit flips about half of the
/// output bits.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the FNV-1a hash of a name, as a key for [`Draw`].
pub fn hash_name(name: &str) -> u64 {
    fnv(name.as_bytes())
}

/// Returns the FNV-1a hash of bytes.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_each_part_of_its_key_and_on_nothing_else() {
        let draw = Draw::new(1, 2, 3);
        assert_eq!(draw.bits(7), Draw::new(1, 2, 3).bits(7));
        for other in [Draw { seed: 2, ..draw }, Draw { stream: 3, ..draw }, Draw { k: 4, ..draw }] {
            assert_ne!(draw.bits(7), other.bits(7));
        }
        assert_ne!(draw.bits(7), draw.bits(8));
    }

    #[test]
    fn units_are_uniform() {
        let mut bins = [0u32; 64];
        let n = 1 << 18;
        for k in 0..n {
            bins[(Draw::new(42, 0, k).unit(1) * 64.0) as usize] += 1;
        }
        let expected = n as f64 / 64.0;
        let chi2: f64 = bins.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
        assert!(chi2 < 103.4, "chi-squared {chi2} with 63 degrees of freedom exceeds its 99.9 % quantile");
    }

    #[test]
    fn ids_depend_on_request_and_run_and_attempts_share_the_trace() {
        let (draw, next) = (Draw::new(1, 2, 3), Draw::new(1, 2, 4));
        let first = draw.trace_context(9, 7, 0);
        assert_eq!(first, draw.trace_context(9, 7, 0));
        let again = draw.trace_context(9, 7, 1);
        assert_eq!(again.id(), first.id());
        assert_ne!(again.span(), first.span());
        for other in [next.trace_context(9, 7, 0), draw.trace_context(9, 8, 0)] {
            assert_ne!(other.id(), first.id());
            assert_ne!(other.span(), first.span());
        }
        let of = |k| Draw::new(1, 2, k).trace_context(9, 7, 0);
        let (traces, spans): (std::collections::HashSet<_>, std::collections::HashSet<_>) =
            (0..10_000).map(|k| (of(k).id(), of(k).span())).unzip();
        assert_eq!((traces.len(), spans.len()), (10_000, 10_000));
    }
}
