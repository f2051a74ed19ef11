//! A key's slot among the 16,384 slots of a cluster, and the node of each slot.

use std::sync::atomic::{AtomicU16, Ordering};

use memchr::memchr;

/// Number of slots.
pub const SLOTS: usize = 16_384;

/// Value for a slot without a known node.
const NOBODY: u16 = u16::MAX;

/// Table of CRC-16/XMODEM (polynomial 0x1021), by high byte.
const TABLE: [u16; 256] = table();

/// Computes [`TABLE`], at compile time.
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

/// Returns the CRC-16/XMODEM of `bytes`.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// Returns the slot of a key. If text stands between the first `{` and the next `}`, only that text counts.
pub fn slot_of(key: &[u8]) -> usize {
    let tag = memchr(b'{', key).and_then(|open| {
        let inside = &key[open + 1..];
        memchr(b'}', inside).filter(|length| *length > 0).map(|length| &inside[..length])
    });
    usize::from(crc16(tag.unwrap_or(key))) % SLOTS
}

/// The node of each slot. All clients of a target share it and update single slots.
#[derive(Debug)]
pub struct Slots(Box<[AtomicU16]>);

impl Slots {
    /// Creates it without known nodes.
    pub fn new() -> Self {
        Self((0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect())
    }

    /// Returns the number of a slot's node; `None` if it is unknown. Panics unless `slot` is below [`SLOTS`].
    pub fn get(&self, slot: usize) -> Option<u16> {
        Some(self.0[slot].load(Ordering::Relaxed)).filter(|node| *node != NOBODY)
    }

    /// Sets the node of a slot. Panics unless `slot` is below [`SLOTS`].
    pub fn set(&self, slot: usize, node: u16) {
        self.0[slot].store(node, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the CRC-16 and the slots of known keys.
    #[test]
    fn the_sum_is_that_of_the_specification() {
        // The check value of CRC-16/XMODEM in the cluster specification.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b""), 0);
        // Expected values are from CLUSTER KEYSLOT.
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

    /// Checks that setting the node of a slot changes only this slot.
    #[test]
    fn a_slot_moves_alone() {
        let slots = Slots::new();
        assert_eq!(slots.get(5), None);
        slots.set(5, 2);
        assert_eq!((slots.get(4), slots.get(5)), (None, Some(2)));
    }
}
