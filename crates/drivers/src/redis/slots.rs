//! Which of a cluster's 16,384 slots a key is in, and which node serves each.

use std::sync::atomic::{AtomicU16, Ordering};

use memchr::memchr;

/// How many there are.
pub const SLOTS: usize = 16_384;

/// A slot that no node is known to serve.
const NOBODY: u16 = u16::MAX;

/// CRC-16/XMODEM, the polynomial 0x1021, by its high byte.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key: that of what stands between its first `{` and the next `}`, if anything does.
pub fn slot_of(key: &[u8]) -> usize {
    let tag = memchr(b'{', key).and_then(|open| {
        let inside = &key[open + 1..];
        memchr(b'}', inside).filter(|length| *length > 0).map(|length| &inside[..length])
    });
    usize::from(crc16(tag.unwrap_or(key))) % SLOTS
}

/// The number of the node that serves each slot. All clients of a target share it, and change it one slot at a time.
#[derive(Debug)]
pub struct Slots(Box<[AtomicU16]>);

impl Slots {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self((0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect())
    }

    /// Who serves a slot, if it is known.
    pub fn get(&self, slot: usize) -> Option<u16> {
        Some(self.0[slot].load(Ordering::Relaxed)).filter(|node| *node != NOBODY)
    }

    /// A slot, below [`SLOTS`], is served by that node.
    pub fn set(&self, slot: usize, node: u16) {
        self.0[slot].store(node, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_specification() {
        // The check value of CRC-16/XMODEM, which the cluster specification names.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        // As CLUSTER KEYSLOT has them.
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"somekey"), 11_058);
    }

    #[test]
    fn only_the_first_tag_that_is_not_empty_counts() {
        for (key, same) in
            [(&b"{user1000}.following"[..], &b"user1000"[..]), (b"foo{{bar}}zap", b"{bar"), (b"foo{bar}{zap}", b"bar")]
        {
            assert_eq!(slot_of(key), slot_of(same));
        }
        assert_eq!(slot_of(b"foo{}{bar}"), usize::from(crc16(b"foo{}{bar}")) % SLOTS);
        assert_eq!(slot_of(b"foo{bar"), usize::from(crc16(b"foo{bar")) % SLOTS);
    }

    #[test]
    fn a_slot_moves_alone() {
        let slots = Slots::new();
        assert_eq!(slots.get(5), None);
        slots.set(5, 2);
        assert_eq!((slots.get(4), slots.get(5)), (None, Some(2)));
    }
}
