//! Words and text that resemble a language: syllables for names, and a pool of running text.

use crate::util::draw::{Draw, mix};
use crate::util::math;

const SYLLABLES: [&str; 32] = [
    "a", "ba", "bel", "ca", "dor", "e", "far", "gan", "ha", "il", "ja", "ka", "lan", "lo", "ma", "mir", "na", "nor",
    "o", "pe", "ra", "ri", "sa", "sel", "ta", "tor", "u", "va", "ver", "wa", "ya", "zen",
];

/// Appends a capitalized name of two to four syllables, selected by `bits`.
pub fn push_name(out: &mut Vec<u8>, mut bits: u64) {
    let begin = out.len();
    let count = 2 + bits % 3;
    bits >>= 8;
    for _ in 0..count {
        out.extend_from_slice(SYLLABLES[(bits & 31) as usize].as_bytes());
        bits >>= 5;
    }
    out[begin].make_ascii_uppercase();
}

/// Pool of running text: words with Zipf-like frequencies, spaces and full stops, ASCII.
#[derive(Debug)]
pub struct Pool(Box<[u8]>);

impl Pool {
    const BYTES: usize = 1 << 20;

    /// Creates a pool of 1 MiB of text that depends on the seed.
    pub fn new(seed: u64) -> Self {
        let draw = Draw::new(seed, 0, 0);
        let mut text = Vec::with_capacity(Self::BYTES + 64);
        let mut salt = 0;
        while text.len() < Self::BYTES {
            salt += 1;
            // The logarithm of a word's rank is uniform, so its frequency is inverse to the rank.
            let rank = math::exp(math::ln(20_000f64) * draw.unit(salt)) as u64;
            let begin = text.len();
            push_name(&mut text, mix(rank));
            text[begin].make_ascii_lowercase();
            text.extend_from_slice(if draw.bits(salt) & 15 == 0 { b". " } else { b" " });
        }
        text.truncate(Self::BYTES);
        Self(text.into())
    }

    /// Appends `length` characters of the pool, from a position determined by `bits`; continues at the start after the
    /// end.
    pub fn push(&self, out: &mut Vec<u8>, bits: u64, mut length: usize) {
        let mut at = (bits % Self::BYTES as u64) as usize;
        while length > 0 {
            let some = length.min(Self::BYTES - at);
            out.extend_from_slice(&self.0[at..at + some]);
            length -= some;
            at = 0;
        }
    }
}
