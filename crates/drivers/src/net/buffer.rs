//! A buffer for the answers of one connection: it grows with the bytes received, up to a limit, and frees
//! memory after a large answer.

use std::ops::{Deref, DerefMut};

/// The longest answer that is accepted, in bytes. Every client may hold one.
pub const LIMIT: usize = 64 << 20;
/// Initial size, in bytes; it grows by doubling.
const ROOM: usize = 16 << 10;
/// A larger buffer is shrunk to this when the next answer begins, unless the last answer used much of it.
const SPARE: usize = 1 << 20;

/// The bytes of an answer received so far; it dereferences to them.
#[derive(Debug, Default)]
pub struct AnswerBuffer {
    /// Fully initialised; the first `filled` bytes were received.
    bytes: Vec<u8>,
    filled: usize,
}

impl AnswerBuffer {
    /// Clears the buffer for the next answer. Shrinks it to 1 MiB if it is larger and the last answer used less than a
    /// quarter.
    pub fn begin(&mut self) {
        if self.bytes.len() > SPARE && self.filled < self.bytes.len() / 4 {
            self.bytes.truncate(SPARE);
            self.bytes.shrink_to_fit();
        }
        self.filled = 0;
    }

    /// Returns the unused part, never empty, to write the next bytes to; `None` if the answer already has `limit`
    /// bytes. Grows a full buffer.
    pub fn space(&mut self, limit: usize) -> Option<&mut [u8]> {
        if self.is_full() {
            if self.filled >= limit {
                return None;
            }
            self.bytes.resize((self.filled * 2).clamp(ROOM.min(limit), limit), 0);
        }
        Some(&mut self.bytes[self.filled..])
    }

    /// Counts `count` bytes that were written to `space` as received.
    pub fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    /// Returns how many bytes are allocated.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the next byte requires a larger buffer.
    pub fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    /// Keeps the first `count` bytes of the answer.
    pub fn truncate(&mut self, count: usize) {
        self.filled = self.filled.min(count);
    }
}

impl Deref for AnswerBuffer {
    type Target = [u8];

    /// Returns the bytes received so far.
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl DerefMut for AnswerBuffer {
    /// Returns the bytes received so far.
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.filled]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends `bytes` to the answer in a buffer; `None` if the answer would exceed `limit` bytes.
    fn receive(buffer: &mut AnswerBuffer, bytes: &[u8], limit: usize) -> Option<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let space = buffer.space(limit)?;
            let count = space.len().min(rest.len());
            space[..count].copy_from_slice(&rest[..count]);
            buffer.advance(count);
            rest = &rest[count..];
        }
        Some(())
    }

    #[test]
    fn it_grows_with_the_answer_up_to_its_limit() {
        let mut buffer = AnswerBuffer::default();
        let bytes: Vec<u8> = (0..40_000_u32).map(|index| index as u8).collect();
        receive(&mut buffer, &bytes, LIMIT).unwrap();
        assert_eq!(*buffer, *bytes);
        assert_eq!(buffer.room(), 65_536);
        buffer.truncate(3);
        assert_eq!(*buffer, [0, 1, 2]);
        buffer.begin();
        assert!(buffer.is_empty());
        receive(&mut buffer, &bytes[..100], 65_536 + 50).unwrap();
        assert_eq!(receive(&mut buffer, &vec![1; 70_000], 65_536 + 50), None);
        assert_eq!(buffer.len(), 65_536 + 50);
    }

    #[test]
    fn room_of_a_large_answer_is_given_back_once_the_answers_are_small_again() {
        let mut buffer = AnswerBuffer::default();
        receive(&mut buffer, &vec![1; 3 << 20], LIMIT).unwrap();
        buffer.begin();
        assert_eq!(buffer.room(), 4 << 20, "the last answer needed it");
        receive(&mut buffer, b"small", LIMIT).unwrap();
        buffer.begin();
        assert_eq!(buffer.room(), SPARE);
    }
}
