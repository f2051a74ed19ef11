//! Finds the end of a JSON object or array, 64 bytes at a time.
//!
//! For each block, bit masks mark quotes, backslashes and brackets. The running parity of unescaped quotes
//! marks the bytes inside strings. The few brackets outside strings are counted one by one. (Method after
//! Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019.)

/// An object or array at the start of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Container {
    /// Its length in bytes, both brackets included.
    pub length: usize,
    /// The objects among its direct elements or members.
    pub objects: u64,
}

const BLOCK: usize = 64;

/// Measures the object or array that `text` begins with; `None` if it is incomplete. Does not check that it is valid
/// JSON.
pub fn container(text: &[u8]) -> Option<Container> {
    let mut scan = Scan::default();
    let blocks = text.chunks_exact(BLOCK);
    let rest = blocks.remainder();
    let mut start = 0;
    for block in blocks {
        if let Some(end) = scan.block(block.try_into().expect("chunks have the requested length")) {
            return Some(Container { length: start + end, objects: scan.objects });
        }
        start += BLOCK;
    }
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    scan.block(&last).map(|end| Container { length: start + end, objects: scan.objects })
}

/// State carried from block to block.
#[derive(Default)]
struct Scan {
    /// All ones if the block begins inside a string.
    in_string: u64,
    /// 1 if the block's first byte is escaped.
    escaped: u64,
    depth: u64,
    objects: u64,
}

impl Scan {
    /// Scans a block; returns the offset in it after the outermost container's end, `None` if that lies in a later
    /// block.
    fn block(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let escaped = self.escaped(equal(block, b'\\'));
        let quotes = equal(block, b'"') & !escaped;
        let in_string = running_parity(quotes) ^ self.in_string;
        self.in_string = if in_string >> 63 == 1 { !0 } else { 0 };

        let braces = equal(block, b'{');
        let opening = braces | equal(block, b'[');
        let mut brackets = (opening | equal(block, b'}') | equal(block, b']')) & !in_string;
        while brackets != 0 {
            let lowest = brackets & brackets.wrapping_neg();
            if opening & lowest != 0 {
                self.objects += u64::from(self.depth == 1 && braces & lowest != 0);
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(lowest.trailing_zeros() as usize + 1);
                }
            }
            brackets ^= lowest;
        }
        None
    }

    /// Returns a mask of the escaped bytes, from a mask of the backslashes: bytes that follow a backslash that is not
    /// itself escaped.
    fn escaped(&mut self, mut backslashes: u64) -> u64 {
        let mut escaped = self.escaped;
        self.escaped = 0;
        backslashes &= !escaped;
        // Backslashes are rare in documents, so a loop is fast enough.
        while backslashes != 0 {
            let next = (backslashes & backslashes.wrapping_neg()) << 1;
            if next == 0 {
                self.escaped = 1;
                break;
            }
            escaped |= next;
            backslashes &= !next & (next.wrapping_neg());
        }
        escaped
    }
}

/// Returns a word with, in each bit i, the parity of bits 0 to i.
fn running_parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Returns a mask of the bytes equal to `byte`: bit i, from the lowest, stands for byte i.
#[cfg(target_arch = "x86_64")]
fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let mut mask = 0;
    for (i, part) in block.chunks_exact(16).enumerate() {
        // SAFETY: every x86-64 has SSE2; the load is of 16 bytes, unaligned, from a slice of 16 bytes.
        let bits = unsafe {
            let part = _mm_loadu_si128(part.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(part, _mm_set1_epi8(byte as i8)))
        };
        mask |= u64::from(bits as u32) << (16 * i);
    }
    mask
}

/// Returns a mask of the bytes equal to `byte`: bit i, from the lowest, stands for byte i.
#[cfg(not(target_arch = "x86_64"))]
fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    equal_bytes(block, byte)
}

/// Returns a mask of the bytes equal to `byte`, without SIMD instructions.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn equal_bytes(block: &[u8; BLOCK], byte: u8) -> u64 {
    block.iter().enumerate().fold(0, |mask, (i, &other)| mask | (u64::from(other == byte) << i))
}

#[cfg(test)]
mod tests {
    use crate::util::draw::Draw;

    use super::*;

    #[test]
    fn masks_are_the_same_on_every_processor() {
        for k in 0..1000 {
            let draw = Draw::new(1, 2, k);
            let block = std::array::from_fn(|i| b"\"\\{}[]xy"[(draw.bits(i as u64) % 8) as usize]);
            for byte in *b"\"\\{}[]" {
                assert_eq!(equal(&block, byte), equal_bytes(&block, byte));
            }
        }
    }

    #[test]
    fn parity_runs_from_the_lowest_bit() {
        assert_eq!(running_parity(0b0010_0100), 0b0001_1100);
        assert_eq!(running_parity(1 << 5), !0 << 5);
    }

    #[test]
    fn a_backslash_escapes_across_block_boundaries() {
        // Runs of backslashes of every length, at every position, before a quote inside a string.
        for padding in 0..130 {
            for run in 0..9 {
                let inside = format!("{}{}\"", " ".repeat(padding), "\\".repeat(run));
                let ends_string = run % 2 == 0;
                let text = if ends_string { format!("[\"{inside}, {{}}]") } else { format!("[\"{inside}, {{}}]\"]") };
                let expected = Container { length: text.len(), objects: u64::from(ends_string) };
                assert_eq!(container(text.as_bytes()), Some(expected), "{text}");
            }
        }
    }

    #[test]
    fn a_container_without_an_end_is_none() {
        for text in ["", "{", "[[]", "[\"]", "[\"\\\"]"] {
            assert_eq!(container(text.as_bytes()), None, "{text}");
        }
    }
}
