//! An HTTP/1.1 answer (RFC 9112), parsed incrementally. All answers of a connection share one buffer. The parser finds
//! the end of an answer and does not interpret it.
//!
//! Input from the peer is not trusted: heads, chunk sizes and bodies are bounded, and a protocol violation is an error.
//! Of an unread body, the parser keeps only the beginning and counts the rest.

use std::fmt;
use std::time::Duration;

use memchr::memchr;

use crate::net::buffer::{AnswerBuffer, LIMIT};
use crate::net::exchange::Frame;

/// Maximum length of a head, in bytes.
const HEAD_LIMIT: usize = 64 << 10;
/// Maximum length of a line with a chunk's size, in bytes.
const CHUNK_LINE_LIMIT: usize = 4 << 10;
/// Maximum length of a counted body, in bytes. A greater length is a server error.
const COUNTED_LIMIT: usize = 1 << 40;
/// Number of bytes kept of a counted body: enough for a store's error description.
const KEPT: usize = 64 << 10;

/// Handling of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The answer ends after its head, as for HEAD. A length in its headers is ignored.
    None,
    /// The parser counts the bytes and keeps only the beginning.
    Counted,
    /// The parser keeps the whole body.
    Read,
}

/// An answer that violates HTTP or exceeds a limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(String);

impl fmt::Display for Malformed {
    /// Writes the violated rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed HTTP answer: {}", self.0)
    }
}

/// Returns the error `Malformed`, in which `what` says what violates HTTP.
fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// State of the parser: the next expected element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    StatusLine,
    Fields,
    /// Number of missing bytes of the body.
    Length(u64),
    /// A body that ends when the connection closes.
    UntilClose,
    ChunkSize,
    /// Number of missing bytes of the chunk.
    Chunk(usize),
    /// The line end after a chunk's bytes.
    ChunkEnd,
    /// Trailer fields after the last chunk. Holds their start offset.
    Trailer(usize),
    Done,
}

/// Body and connection fields of a head.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
}

/// An answer. Call `begin`, then `space` and `advance` until it is complete.
#[derive(Debug)]
pub struct Answer {
    /// The received bytes, minus the dropped bytes.
    bytes: AnswerBuffer,
    /// Number of received bytes, including dropped bytes.
    received: u64,
    /// End of the processed bytes.
    at: usize,
    /// End of the range after `at` that was searched for a line end without success.
    searched: usize,
    stage: Stage,
    head: Head,
    body: Body,
    /// Number of dropped bytes of the body.
    dropped: u64,
    /// Start of the final answer's head. Interim answers may precede it.
    head_start: usize,
    body_start: usize,
    /// End of the body, with its chunks joined.
    body_end: usize,
}

impl Answer {
    /// Creates an empty answer.
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

    /// Prepares for the next answer. `body` sets the handling of its body.
    pub fn begin(&mut self, body: Body) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.begin();
        *self = Self { bytes, body, ..Self::new() };
    }

    /// Returns whether the answer is complete.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Returns the status of a complete answer, such as 200.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// Returns the status line of a complete answer.
    pub fn status_line(&self) -> &[u8] {
        self.head().next().unwrap_or_default()
    }

    /// Returns the value of a complete answer's first header of that name, in any case of letters; `None` without one.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.head().skip(1).find_map(|line| value_of(line, name))
    }

    /// Iterates over the values of all headers of that name in a complete answer.
    pub fn fields(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.head().skip(1).filter_map(move |line| value_of(line, name))
    }

    /// Returns the Retry-After delay of a refused request (429 or 503), or `None`. Only a number of seconds counts. A
    /// date is ignored, because the server's clock may differ.
    pub fn retry_after(&self) -> Option<Duration> {
        if !matches!(self.status(), 429 | 503) {
            return None;
        }
        let seconds = std::str::from_utf8(self.field("retry-after")?).ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// Returns the lines of a complete answer's head without line ends, the status line first. Two empty lines follow
    /// the last field.
    fn head(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[self.head_start..self.body_start].split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
    }

    /// Returns the body of a complete answer, or its beginning if it was only counted.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..self.body_end]
    }

    /// Returns the body of a complete answer; `None` for an incomplete one, or if bytes were dropped.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.is_complete() && self.dropped == 0).then(|| self.body())
    }

    /// Returns the maximum body length in bytes: 64 MiB, or 1 TiB for a counted body.
    fn limit(&self) -> usize {
        if self.body == Body::Read { LIMIT } else { COUNTED_LIMIT }
    }

    /// Returns the number of dropped bytes of the body.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Processes the next `count` available bytes of the body: keeps them, or drops those of a counted body beyond 64
    /// KiB. Fails if a body to keep exceeds 64 MiB.
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

    /// Moves the unprocessed bytes to the end of the body, over dropped bytes and chunk sizes.
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

    /// Processes one element of the available bytes. Returns false if it needs more bytes or the answer is complete.
    /// Fails if the answer is malformed or exceeds a limit.
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

    /// Returns the start and end of the next line, without `\r\n`, and moves past it; `None` if it is incomplete. A
    /// line that passes offset `limit` is an error, in which `what` names it.
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

    /// Chooses the next stage after the head: the body's form, or the end of the answer. Refuses a body that is too
    /// long.
    fn head_ends(&mut self) -> Result<(), Malformed> {
        self.body_start = self.at;
        self.body_end = self.at;
        self.stage = match self.head {
            // An interim answer, followed by the final one.
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

    /// Returns the buffer for the next bytes; never empty. Fails if the answer exceeds the size limit.
    fn space(&mut self) -> Result<&mut [u8], Malformed> {
        if self.bytes.is_full() {
            self.close_gap();
        }
        // Limits of heads and lines are smaller.
        let longest = LIMIT * 2;
        self.bytes.space(longest).ok_or_else(|| Malformed(format!("it is longer than {longest} bytes")))
    }

    /// Adds `count` bytes that were written to `space`. Returns whether the answer is complete; fails if it is
    /// malformed or exceeds a limit.
    fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.bytes.advance(count);
        self.received += count as u64;
        while self.step()? {}
        Ok(self.stage == Stage::Done)
    }

    /// Handles the end of the connection, which completes a body without a length. Returns whether the answer is
    /// complete.
    fn end(&mut self) -> bool {
        if self.stage == Stage::UntilClose {
            self.stage = Stage::Done;
        }
        self.stage == Stage::Done
    }

    /// Returns the number of bytes received.
    fn received(&self) -> u64 {
        self.received
    }

    /// Returns whether the connection can serve another request: the answer is complete, no bytes follow it, and the
    /// server did not announce a close.
    fn reusable(&self) -> bool {
        self.stage == Stage::Done && self.head.keep_alive && self.at == self.bytes.len()
    }
}

/// Returns the value in a line of a head, if it is a header of that name, in any case of letters.
fn value_of<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (field, value) = line.split_at(memchr(b':', line)?);
    field.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
}

/// Parses `HTTP/1.1 200 OK`, of any version 1.x and with an optional reason. Fails for other text.
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

/// Reads a header line into `head`, if it concerns the body or the connection. Fails without a colon, for two different
/// lengths and for an unknown transfer encoding.
fn field(line: &[u8], head: &mut Head) -> Result<(), Malformed> {
    let Some(colon) = memchr(b':', line) else {
        return malformed(format!("{:?} is not a field", String::from_utf8_lossy(&line[..line.len().min(40)])));
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // Compare the name's length first, which excludes most headers.
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

/// Parses a body's length. Fails unless it consists of digits only and fits into 64 bits.
fn decimal(digits: &[u8]) -> Result<u64, Malformed> {
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| valid).and_then(|digits| digits.parse().ok());
    number.map_or_else(|| malformed(format!("{:?} is not a length", String::from_utf8_lossy(digits))), Ok)
}

/// Parses a line such as `1a2b; extension` as a hexadecimal number of bytes. Fails for other text and a size above
/// `most`.
fn chunk_size(line: &[u8], most: usize) -> Result<usize, Malformed> {
    let digits = line[..memchr(b';', line).unwrap_or(line.len())].trim_ascii();
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| valid);
    let size = text.and_then(|digits| usize::from_str_radix(digits, 16).ok()).filter(|size| *size <= most);
    size.map_or_else(|| malformed(format!("{:?} is not a chunk size", String::from_utf8_lossy(line))), Ok)
}

#[cfg(test)]
mod tests;
