//! One HTTP/1.1 answer (RFC 9112), read from bytes as they arrive, into a buffer that serves all answers of a
//! connection. It recognises where an answer ends and does not interpret it.
//!
//! The peer may send anything: heads, chunk sizes and bodies are bounded, and a violation of the
//! rules is an error. Only the beginning of a body that will not be read is kept: the rest is counted and dropped.

use std::fmt;
use std::time::Duration;

use memchr::memchr;

use crate::net::buffer::{AnswerBuffer, LIMIT};
use crate::net::exchange::Frame;

/// The longest head, in bytes.
const HEAD_LIMIT: usize = 64 << 10;
/// The longest line with a chunk's size, in bytes.
const CHUNK_LINE_LIMIT: usize = 4 << 10;
/// The longest body that is only counted, in bytes: a greater length is an error of the server.
const COUNTED_LIMIT: usize = 1 << 40;
/// How many bytes are kept of a body that is only counted: enough for a store's description of an error.
const KEPT: usize = 64 << 10;

/// What is done with the body of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The answer has no body, as the answer to HEAD, whatever its headers say.
    None,
    /// Its bytes are counted, and it is not read.
    Counted,
    /// It is read as a whole.
    Read,
}

/// An answer that breaks the rules of HTTP, or the bounds set here.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed HTTP answer: {}", self.0)
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// What is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    StatusLine,
    Fields,
    /// This many bytes of the body are missing.
    Length(u64),
    /// A body that ends with the connection.
    UntilClose,
    ChunkSize,
    /// This many bytes of the chunk are missing.
    Chunk(usize),
    /// The line end after a chunk's bytes.
    ChunkEnd,
    /// Fields after the last chunk, which began at this offset.
    Trailer(usize),
    Done,
}

/// What the fields of a head say about the body and the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
}

/// See the module. `begin`, then `space` and `advance` until it is complete.
#[derive(Debug)]
pub struct Answer {
    /// What was received, without what was dropped.
    bytes: AnswerBuffer,
    /// All bytes received, including those that were dropped.
    received: u64,
    /// Everything before this is processed.
    at: usize,
    /// Between `at` and this there is no line end.
    searched: usize,
    stage: Stage,
    head: Head,
    body: Body,
    /// Bytes of the body that were dropped.
    dropped: u64,
    /// The head of the final answer begins here; interim ones may come before it.
    head_start: usize,
    body_start: usize,
    /// The body, its chunks joined, ends here.
    body_end: usize,
}

impl Answer {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            bytes: AnswerBuffer::default(),
            received: 0,
            at: 0,
            searched: 0,
            stage: Stage::StatusLine,
            head: Head::default(),
            body: Body::Read,
            dropped: 0,
            head_start: 0,
            body_start: 0,
            body_end: 0,
        }
    }

    /// Prepares for the next answer. `body`: what is done with its body.
    pub fn begin(&mut self, body: Body) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.begin();
        *self = Self { bytes, body, ..Self::new() };
    }

    /// Whether the answer is complete.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The status of a complete answer.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The status line of a complete answer.
    pub fn status_line(&self) -> &[u8] {
        self.head().next().unwrap_or_default()
    }

    /// The value of a complete answer's field, the first of that name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.head().skip(1).find_map(|line| {
            let (field, value) = line.split_at(memchr(b':', line)?);
            field.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
        })
    }

    /// How long a refused client is asked to wait: the field Retry-After in seconds. A date is ignored, since the
    /// server's clock may differ.
    pub fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status(), 429 | 503) {
            return None;
        }
        let seconds = std::str::from_utf8(self.field("retry-after")?).ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    fn head(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[self.head_start..self.body_start].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
    }

    /// The body of a complete answer; its beginning if it was only counted.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..self.body_end]
    }

    /// The body of a complete answer of which nothing was dropped.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.is_complete() && self.dropped == 0).then(|| self.body())
    }

    /// How long a body may be.
    fn limit(&self) -> usize {
        if self.body == Body::Read { LIMIT } else { COUNTED_LIMIT }
    }

    /// How many bytes of the body were received and dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Appends the next `count` bytes to what is kept of the body.
    fn take(&mut self, count: usize) -> Result<(), Malformed> {
        let kept = self.body_end - self.body_start;
        if self.body == Body::Read && count > LIMIT - kept {
            return malformed(format!("its body is longer than {LIMIT} bytes"));
        }
        let more = if self.body == Body::Read { count } else { count.min(KEPT.saturating_sub(kept)) };
        if self.body_end < self.at {
            self.bytes.copy_within(self.at..self.at + more, self.body_end);
        }
        self.body_end += more;
        self.dropped += (count - more) as u64;
        self.at += count;
        Ok(())
    }

    /// Moves the unprocessed bytes to the end of the body, over dropped bytes and the sizes of chunks.
    fn close_gap(&mut self) {
        let gap = self.at - self.body_end;
        let in_body = matches!(
            self.stage,
            Stage::Length(_) | Stage::UntilClose | Stage::ChunkSize | Stage::Chunk(_) | Stage::ChunkEnd
        );
        if in_body && gap > 0 {
            self.bytes.copy_within(self.at.., self.body_end);
            self.bytes.truncate(self.bytes.len() - gap);
            self.at -= gap;
            self.searched = self.searched.saturating_sub(gap);
        }
    }

    /// Processes the available bytes by one step; returns false if more are needed or the answer is complete.
    fn step(&mut self) -> Result<bool, Malformed> {
        match self.stage {
            Stage::StatusLine => {
                let Some((start, end)) = self.line(HEAD_LIMIT, "head")? else { return Ok(false) };
                self.head_start = start;
                self.head = status_line(&self.bytes[start..end])?;
                self.stage = Stage::Fields;
            }
            Stage::Fields => {
                let Some((start, end)) = self.line(HEAD_LIMIT, "head")? else { return Ok(false) };
                if start == end {
                    self.head_ends()?;
                } else {
                    field(&self.bytes[start..end], &mut self.head)?;
                }
            }
            Stage::Length(missing) => {
                let count = usize::try_from(missing).unwrap_or(usize::MAX).min(self.bytes.len() - self.at);
                self.take(count)?;
                let missing = missing - count as u64;
                if missing > 0 {
                    self.stage = Stage::Length(missing);
                    return Ok(false);
                }
                self.stage = Stage::Done;
            }
            Stage::UntilClose => {
                self.take(self.bytes.len() - self.at)?;
                return Ok(false);
            }
            Stage::ChunkSize => {
                let Some((start, end)) = self.line(self.at + CHUNK_LINE_LIMIT, "line of a chunk's size")? else {
                    return Ok(false);
                };
                let size = chunk_size(&self.bytes[start..end], self.limit())?;
                self.stage = if size == 0 { Stage::Trailer(self.at) } else { Stage::Chunk(size) };
            }
            Stage::Chunk(missing) => {
                let count = missing.min(self.bytes.len() - self.at);
                self.take(count)?;
                if count < missing {
                    self.stage = Stage::Chunk(missing - count);
                    return Ok(false);
                }
                self.stage = Stage::ChunkEnd;
            }
            Stage::ChunkEnd => {
                let Some((start, end)) = self.line(self.at + 2, "line end of a chunk")? else { return Ok(false) };
                if start < end {
                    return malformed("a chunk is longer than its size");
                }
                self.stage = Stage::ChunkSize;
            }
            Stage::Trailer(start) => {
                let Some((line, end)) = self.line(start + HEAD_LIMIT, "trailer")? else { return Ok(false) };
                if line == end {
                    self.stage = Stage::Done;
                }
            }
            Stage::Done => return Ok(false),
        }
        Ok(true)
    }

    /// The next line's first byte and its end, without `\r\n`; `None` while it is not complete. Lines beyond `limit`
    /// are refused.
    fn line(&mut self, limit: usize, what: &str) -> Result<Option<(usize, usize)>, Malformed> {
        let from = self.searched.max(self.at);
        match memchr(b'\n', &self.bytes[from..]) {
            Some(length) if from + length < limit => {
                let (start, end) = (self.at, from + length);
                self.at = end + 1;
                let end = if end > start && self.bytes[end - 1] == b'\r' { end - 1 } else { end };
                Ok(Some((start, end)))
            }
            None if self.bytes.len() < limit => {
                self.searched = self.bytes.len();
                Ok(None)
            }
            _ => malformed(format!("its {what} has no end")),
        }
    }

    fn head_ends(&mut self) -> Result<(), Malformed> {
        self.body_start = self.at;
        self.body_end = self.at;
        self.stage = match self.head {
            // An interim answer; the final one follows.
            Head { status: 100..200, .. } => Stage::StatusLine,
            Head { status: 204 | 304, .. } => Stage::Done,
            _ if self.body == Body::None => Stage::Done,
            Head { chunked: true, .. } => Stage::ChunkSize,
            Head { length: Some(length), .. } if length > self.limit() as u64 => {
                return malformed(format!("a body of {length} bytes is longer than {} bytes", self.limit()));
            }
            Head { length: Some(length), .. } => Stage::Length(length),
            _ => {
                self.head.keep_alive = false;
                Stage::UntilClose
            }
        };
        Ok(())
    }
}

impl Frame for Answer {
    type Error = Malformed;

    fn space(&mut self) -> Result<&mut [u8], Malformed> {
        if self.bytes.is_full() {
            self.close_gap();
        }
        // Heads and the lines around the body have smaller limits.
        let longest = LIMIT * 2;
        self.bytes.space(longest).ok_or_else(|| Malformed(format!("it is longer than {longest} bytes")))
    }

    fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.bytes.advance(count);
        self.received += count as u64;
        while self.step()? {}
        Ok(self.stage == Stage::Done)
    }

    fn end(&mut self) -> bool {
        if self.stage == Stage::UntilClose {
            self.stage = Stage::Done;
        }
        self.stage == Stage::Done
    }

    fn received(&self) -> u64 {
        self.received
    }

    /// Whether the answer is complete, nothing follows it, and the server did not announce that it will close.
    fn reusable(&self) -> bool {
        self.stage == Stage::Done && self.head.keep_alive && self.at == self.bytes.len()
    }
}

/// `HTTP/1.1 200 OK`
fn status_line(line: &[u8]) -> Result<Head, Malformed> {
    let status = |digits: &[u8]| digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    match line {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', digits @ ..] if digits.len() >= 3 => {
            let (digits, reason) = digits.split_at(3);
            let valid = matches!(digits, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9']) && matches!(reason, [] | [b' ', ..]);
            if valid {
                return Ok(Head { status: status(digits), keep_alive: *minor > b'0', ..Head::default() });
            }
        }
        _ => {}
    }
    malformed(format!("it begins with {:?}", String::from_utf8_lossy(&line[..line.len().min(40)])))
}

/// Evaluates a header that concerns the body or the connection.
fn field(line: &[u8], head: &mut Head) -> Result<(), Malformed> {
    let Some(colon) = memchr(b':', line) else {
        return malformed(format!("{:?} is not a field", String::from_utf8_lossy(&line[..line.len().min(40)])));
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // Compares the length of the name first: most headers are different ones.
    match name.len() {
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    head.keep_alive = false;
                } else if option.eq_ignore_ascii_case(b"keep-alive") {
                    head.keep_alive = true;
                }
            }
        }
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length = decimal(value.trim_ascii())?;
            if head.length.is_some_and(|earlier| earlier != length) {
                return malformed("it has two lengths");
            }
            head.length = Some(length);
        }
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            let value = value.trim_ascii();
            if !value.eq_ignore_ascii_case(b"chunked") {
                return malformed(format!("unknown transfer encoding {:?}", String::from_utf8_lossy(value)));
            }
            head.chunked = true;
        }
        _ => {}
    }
    Ok(())
}

fn decimal(digits: &[u8]) -> Result<u64, Malformed> {
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| valid).and_then(|digits| digits.parse().ok());
    number.map_or_else(|| malformed(format!("{:?} is not a length", String::from_utf8_lossy(digits))), Ok)
}

/// `1a2b; extension`
fn chunk_size(line: &[u8], most: usize) -> Result<usize, Malformed> {
    let digits = line[..memchr(b';', line).unwrap_or(line.len())].trim_ascii();
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| valid);
    let size = text.and_then(|digits| usize::from_str_radix(digits, 16).ok()).filter(|size| *size <= most);
    size.map_or_else(|| malformed(format!("{:?} is not a chunk size", String::from_utf8_lossy(line))), Ok)
}

#[cfg(test)]
mod tests;
