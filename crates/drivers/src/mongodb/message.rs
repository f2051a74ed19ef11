//! Protocol messages: a head, flags and one document (OP_MSG).
//!
//! Input from the peer is not trusted: a protocol violation or an oversized message is an error.

use std::fmt;

use bson::RawDocument;

use crate::net::buffer::{AnswerBuffer, LIMIT};
use crate::net::exchange::Frame;

/// Length of the message, its number, the number of the answered message, and its kind.
const HEAD: usize = 16;
/// The flags and the kind of the only section follow the head.
const BODY: usize = HEAD + 5;
/// OP_MSG.
const MESSAGE: u32 = 2013;

/// Returns the bytes of message number `number` before its document, which has `document` bytes.
pub fn head(number: u32, document: usize) -> [u8; BODY] {
    let mut head = [0; BODY];
    for (at, field) in [(BODY + document) as u32, number, 0, MESSAGE].into_iter().enumerate() {
        head[4 * at..4 * at + 4].copy_from_slice(&field.to_le_bytes());
    }
    head
}

/// Bytes that are not a valid answer, or an answer over the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    /// Writes the violated rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed answer of MongoDB's protocol: {}", self.0)
    }
}

/// The answer to one command.
#[derive(Debug, Default)]
pub struct Message {
    bytes: AnswerBuffer,
    complete: bool,
}

impl Message {
    /// Prepares for the next answer.
    pub fn begin(&mut self) {
        self.bytes.begin();
        self.complete = false;
    }

    /// Returns the document of a complete answer, or `None` if it is incomplete or malformed.
    pub fn document(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(self.bytes.get(BODY..)?).ok()
    }

    /// Returns the total length of the message, in bytes; `None` before its head has arrived. Refuses another kind of
    /// message and a length out of range.
    fn length(&self) -> Result<Option<usize>, Malformed> {
        let Some(head) = self.bytes.get(..HEAD) else { return Ok(None) };
        let field = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        if field(12) != MESSAGE {
            return Err(Malformed("not an OP_MSG message"));
        }
        match field(0) as usize {
            length if length < BODY => Err(Malformed("its length is too small")),
            length if length > LIMIT => Err(Malformed("it is too long")),
            length => Ok(Some(length)),
        }
    }
}

impl Frame for Message {
    type Error = Malformed;

    /// Returns the buffer for the next bytes; never empty. Fails if the answer exceeds the size limit.
    fn space(&mut self) -> Result<&mut [u8], Malformed> {
        self.bytes.space(LIMIT).ok_or(Malformed("it is too long"))
    }

    /// Adds `count` bytes that were written to `space`. Returns whether the answer is complete; fails if it is
    /// malformed.
    fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.bytes.advance(count);
        let Some(length) = self.length()? else { return Ok(false) };
        if self.bytes.len() > length {
            return Err(Malformed("more than one answer to one request"));
        }
        if self.bytes.len() == length {
            if self.bytes[BODY - 1] != 0 || self.document().is_none() {
                return Err(Malformed("its section is not one document"));
            }
            self.complete = true;
        }
        Ok(self.complete)
    }

    /// Returns false: the end of the connection never completes an answer.
    fn end(&mut self) -> bool {
        false
    }

    /// Returns the number of bytes received.
    fn received(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns whether the connection can serve another exchange: the answer is complete.
    fn reusable(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// Feeds `bytes` in pieces of `step` bytes. Returns whether the message is complete.
    fn read(bytes: &[u8], step: usize) -> Result<bool, Malformed> {
        let mut message = Message::default();
        message.begin();
        let mut complete = false;
        for piece in bytes.chunks(step) {
            message.space()?[..piece.len()].copy_from_slice(piece);
            complete = message.advance(piece.len())?;
        }
        Ok(complete)
    }

    #[test]
    fn an_answer_is_complete_with_its_last_byte_and_nothing_may_follow() {
        let document = rawdoc! {"ok": 1.0, "n": 3};
        let bytes = [&head(7, document.as_bytes().len())[..], document.as_bytes()].concat();
        for step in [1, 5, bytes.len()] {
            assert_eq!(read(&bytes, step), Ok(true));
            assert_eq!(read(&bytes[..bytes.len() - 1], step), Ok(false));
        }
        assert!(read(&[&bytes[..], b"x"].concat(), bytes.len() + 1).is_err());
    }

    #[test]
    fn malformed_answers_are_errors() {
        let document = rawdoc! {"ok": 1.0};
        let good = [&head(7, document.as_bytes().len())[..], document.as_bytes()].concat();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for bytes in
            [with(0, 3), with(3, 0x7f), with(12, 1), with(20, 1), with(21, 99), b"HTTP/1.1 400 Bad Request".to_vec()]
        {
            assert!(read(&bytes, bytes.len()).is_err(), "{bytes:?}");
        }
    }
}
