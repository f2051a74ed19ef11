//! Randomness without state: what request *k* draws is a pure function of (seed, stream, k).
//!
//! Generators that stride one schedule need neither communication nor shared state when a draw can be computed from
//! the request's number alone. The bits come from the finaliser of SplitMix64 (Steele, Lea and Flood 2014), applied
//! to a mix of the key's parts; it passes as a hash of a counter, which is all that is asked of it here.
//!
//! Which client sends request *k* of a closed stream depends on the answers' times; only what is asked for per user
//! depends on the client. What is chosen among records that the load inserts depends on which of them are there
//! already; see [`crate::client::counters`].

/// So many loops of journeys can have variables that count them.
pub const LOOPS: usize = 4;

/// Names one request: its seed, its stream and its number in that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The run's seed.
    pub seed: u64,
    /// The stream's place in its phase's plan, mixed with the phase's name by the plan.
    pub stream: u64,
    /// The number of the request in the stream, over all generators.
    pub k: u64,
    /// The number of the iteration that the request belongs to: of the journey, or `k` without one.
    pub iteration: u64,
    /// The number of the client that sends it.
    pub user: u64,
    /// The number that it takes of the counter that it uses, if it uses one: how many requests of its stream used the
    /// counter before it.
    pub number: u64,
    /// How many numbers of the counter that it chooses from are known to be settled. Fixed when the request starts, so
    /// that what it draws does not change under way.
    pub settled: u64,
    /// Its place in the round over the nodes: successive requests of one operation go to successive nodes.
    pub turn: u64,
    /// Whether its client may ask any node; those of a closed loop keep to one.
    pub roams: bool,
    /// The user's instant of the simulated clock, milliseconds since 1970.
    pub instant: i64,
    /// How often the user has been through each loop that a variable counts, before this pass.
    pub passes: [u32; LOOPS],
}

impl Draw {
    /// Request `k` of a stream, an iteration of its own, sent by the first client.
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
        }
    }

    /// 64 uniform bits. `salt` separates the things that one request draws.
    #[inline]
    pub fn bits(&self, salt: u64) -> u64 {
        let key = mix(self.seed ^ mix(self.stream.wrapping_add(GOLDEN)));
        mix(mix(key ^ self.k.wrapping_mul(GOLDEN)) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// The turn by which client number `client` takes one of several nodes: its own, or the request's.
    #[inline]
    pub fn turn_of(&self, client: u64, is_fixed: bool) -> u64 {
        if is_fixed && !self.roams { client } else { self.turn }
    }

    /// A number in [0, 1), uniform, with 53 random bits.
    #[inline]
    pub fn unit(&self, salt: u64) -> f64 {
        (self.bits(salt) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64: a bijection in which every input bit moves about half of the output bits.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a of a name: turns it into a key for [`Draw`].
pub fn hash_name(name: &str) -> u64 {
    fnv(name.as_bytes())
}

/// FNV-1a over bytes.
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
}
