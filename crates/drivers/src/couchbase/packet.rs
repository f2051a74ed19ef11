//! Packets of the key-value protocol: a 24-byte head with the length of the rest, extras, a key and a value.
//!
//! Input from the peer is not trusted: a protocol violation or an oversized packet is an error.

use std::fmt;

use crate::net::buffer::{AnswerBuffer, LIMIT};
use crate::net::exchange::Frame;

/// Operation code of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Get = 0x00,
    Set = 0x01,
    Add = 0x02,
    Delete = 0x04,
    Hello = 0x1f,
    SaslAuth = 0x21,
    SelectBucket = 0x89,
    /// Reads several paths of one document.
    LookUp = 0xd0,
    /// Changes several paths of one document.
    Mutate = 0xd1,
}

/// Length of a head, in bytes.
const HEAD: usize = 24;
/// Magic byte of a request.
const REQUEST: u8 = 0x80;
/// Magic byte of a request with frames before its extras.
const FRAMED_REQUEST: u8 = 0x08;
/// Magic byte of an answer with frames before its extras.
const FRAMED_ANSWER: u8 = 0x18;
/// Magic byte of an answer.
const ANSWER: u8 = 0x81;
/// Frame header of a write's durability: one byte of content.
const DURABILITY: u8 = 0x11;
/// Maximum key length, in bytes.
pub const KEY_LIMIT: usize = 250;

/// A request under construction. `end` fills in its head.
#[derive(Debug)]
pub struct Packet {
    start: usize,
    opcode: Opcode,
    vbucket: u16,
    frames: usize,
    extras: usize,
    key: usize,
}

impl Packet {
    /// Begins a request at the end of `out`. The caller appends the value, then calls `end` with `out`. `vbucket` is
    /// the partition of the key, `durability` the level's protocol number; `None` for a request without one.
    pub fn begin(
        out: &mut Vec<u8>,
        opcode: Opcode,
        vbucket: u16,
        durability: Option<u8>,
        extras: &[u8],
        key: &[u8],
    ) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        if let Some(level) = durability {
            out.extend_from_slice(&[DURABILITY, level]);
        }
        let frames = out.len() - start - HEAD;
        out.extend_from_slice(extras);
        out.extend_from_slice(key);
        Self { start, opcode, vbucket, frames, extras: extras.len(), key: key.len() }
    }

    /// Fills in the request's head in `out`, whose end is the end of the request.
    pub fn end(self, out: &mut [u8]) {
        let body = (out.len() - self.start - HEAD) as u32;
        let key = self.key as u16;
        let head = &mut out[self.start..self.start + HEAD];
        if self.frames == 0 {
            head[0] = REQUEST;
            head[2..4].copy_from_slice(&key.to_be_bytes());
        } else {
            head[0] = FRAMED_REQUEST;
            head[2] = self.frames as u8;
            head[3] = self.key as u8;
        }
        head[1] = self.opcode as u8;
        head[4] = self.extras as u8;
        head[6..8].copy_from_slice(&self.vbucket.to_be_bytes());
        head[8..12].copy_from_slice(&body.to_be_bytes());
    }
}

/// Returns the opcode, vbucket, key and value of the request at the start of `bytes`, for display; `None` if it is
/// incomplete.
pub fn read_request(bytes: &[u8]) -> Option<(u8, u16, &[u8], &[u8])> {
    let head = bytes.get(..HEAD)?;
    let (frames, key) = if head[0] == FRAMED_REQUEST {
        (usize::from(head[2]), usize::from(head[3]))
    } else {
        (0, usize::from(u16::from_be_bytes([head[2], head[3]])))
    };
    let from = HEAD + frames + usize::from(head[4]);
    let end = HEAD + u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let vbucket = u16::from_be_bytes([head[6], head[7]]);
    Some((head[1], vbucket, bytes.get(from..from + key)?, bytes.get(from + key..end)?))
}

/// Bytes that are not a valid answer, or an answer over the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    /// Writes the violated rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed answer of the key-value protocol: {}", self.0)
    }
}

/// The answers to the requests of one exchange, in request order.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: AnswerBuffer,
    /// End of the complete answers.
    at: usize,
    /// Number of outstanding answers.
    left: usize,
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// 0 means success.
    pub status: u16,
    /// A document or an error text.
    pub value: &'a [u8],
}

impl Answers {
    /// Prepares for the answers to `requests` requests.
    pub fn begin(&mut self, requests: usize) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.begin();
        *self = Self { bytes, left: requests, ..Self::default() };
    }

    /// Returns whether all answers are complete.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Iterates over the complete answers, in the order of the requests.
    pub fn read(&self) -> impl Iterator<Item = Response<'_>> {
        let mut rest = &self.bytes[..self.at];
        std::iter::from_fn(move || {
            let (response, length) = split(rest).ok()??;
            rest = &rest[length..];
            Some(response)
        })
    }
}

/// Returns the answer at the start of `bytes` and its length, or `None` if it is incomplete. Refuses a wrong first
/// byte, inconsistent lengths and more than 64 MiB.
fn split(bytes: &[u8]) -> Result<Option<(Response<'_>, usize)>, Malformed> {
    let Some(head) = bytes.get(..HEAD) else { return Ok(None) };
    let (frames, key) = match head[0] {
        ANSWER => (0, usize::from(u16::from_be_bytes([head[2], head[3]]))),
        FRAMED_ANSWER => (usize::from(head[2]), usize::from(head[3])),
        _ => return Err(Malformed("it begins with another byte")),
    };
    let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
    let from = HEAD + frames + usize::from(head[4]) + key;
    let end = HEAD + body;
    if end > LIMIT {
        return Err(Malformed("it is longer than 64 MiB"));
    }
    if from > end {
        return Err(Malformed("its parts are longer than the whole"));
    }
    let status = u16::from_be_bytes([head[6], head[7]]);
    Ok(bytes.get(from..end).map(|value| (Response { status, value }, end)))
}

impl Frame for Answers {
    type Error = Malformed;

    /// Returns the buffer for the next bytes; never empty. Fails if the answer exceeds the size limit.
    fn space(&mut self) -> Result<&mut [u8], Malformed> {
        self.bytes.space(LIMIT).ok_or(Malformed("they are longer than 64 MiB"))
    }

    /// Adds `count` bytes that were written to `space`. Returns whether all expected answers are complete; fails if
    /// they are malformed.
    fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.bytes.advance(count);
        while self.left > 0 {
            let Some((_, length)) = split(&self.bytes[self.at..])? else { return Ok(false) };
            self.at += length;
            self.left -= 1;
        }
        Ok(true)
    }

    /// Returns false: the end of the connection never completes an answer.
    fn end(&mut self) -> bool {
        false
    }

    /// Returns the number of bytes received.
    fn received(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns whether the connection can serve another exchange: all answers are complete, and no bytes follow.
    fn reusable(&self) -> bool {
        self.left == 0 && self.at == self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an answer with this status and value, and the extras `flag`.
    fn answer(status: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![ANSWER, 0, 0, 0, 4, 1];
        bytes.extend_from_slice(&status.to_be_bytes());
        bytes.extend_from_slice(&(4 + value.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(b"flag");
        bytes.extend_from_slice(value);
        bytes
    }

    /// Feeds `bytes` in pieces of `step` bytes, as the answers to `requests` requests. Returns whether they are
    /// complete, and the answers.
    fn feed(bytes: &[u8], requests: usize, step: usize) -> Result<(bool, Answers), Malformed> {
        let mut answers = Answers::default();
        answers.begin(requests);
        let mut complete = false;
        for piece in bytes.chunks(step) {
            answers.space()?[..piece.len()].copy_from_slice(piece);
            complete = answers.advance(piece.len())?;
        }
        Ok((complete, answers))
    }

    #[test]
    fn a_request_says_how_long_its_parts_are() {
        let mut out = b"before".to_vec();
        let packet = Packet::begin(&mut out, Opcode::Set, 0x0102, None, &[7; 8], b"ann");
        out.extend_from_slice(b"{}");
        packet.end(&mut out);
        let bytes = &out[6..];
        assert_eq!(&bytes[..12], &[0x80, 0x01, 0, 3, 8, 0, 1, 2, 0, 0, 0, 13]);
        assert_eq!(read_request(bytes).unwrap(), (1, 0x0102, &b"ann"[..], &b"{}"[..]));
    }

    #[test]
    fn a_durable_write_says_so_in_a_frame() {
        let mut out = Vec::new();
        Packet::begin(&mut out, Opcode::Delete, 9, Some(1), &[], b"ann").end(&mut out);
        assert_eq!(&out[..12], &[0x08, 0x04, 2, 3, 0, 0, 0, 9, 0, 0, 0, 5]);
        assert_eq!(&out[24..], b"\x11\x01ann");
        assert_eq!(read_request(&out).unwrap(), (4, 9, &b"ann"[..], &b""[..]));
    }

    #[test]
    fn answers_are_complete_with_their_last_byte_however_they_come() {
        let bytes = [answer(0, b"{\"a\":1}"), answer(1, b""), answer(7, b"map")].concat();
        for step in 1..bytes.len() {
            let (complete, answers) = feed(&bytes, 3, step).unwrap();
            assert!(complete && answers.reusable());
            let read: Vec<_> = answers.read().map(|answer| (answer.status, answer.value.to_vec())).collect();
            assert_eq!(read, [(0, b"{\"a\":1}".to_vec()), (1, Vec::new()), (7, b"map".to_vec())]);
        }
        assert!(!feed(&bytes[..bytes.len() - 1], 3, 5).unwrap().0);
        assert!(!feed(&bytes, 2, 500).unwrap().1.reusable(), "more came than was asked for");
    }

    #[test]
    fn a_hostile_answer_is_an_error() {
        let mut long = answer(0, b"");
        long[8] = 0x7f;
        let mut inside_out = answer(0, b"");
        inside_out[2] = 0xff;
        for bytes in [long, inside_out, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()] {
            assert!(feed(&bytes, 1, 7).is_err());
        }
    }
}
