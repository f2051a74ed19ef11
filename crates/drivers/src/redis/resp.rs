//! RESP2 answers, parsed incrementally into a buffer that all answers of a connection reuse.
//!
//! The input is untrusted: the sizes of lines, strings and lists are bounded, and a violation of the protocol is an
//! error. Lists may be nested to any depth: elements are counted without recursion.

use std::fmt;

use memchr::memchr;

use crate::net::buffer::{AnswerBuffer, LIMIT};
use crate::net::exchange::Frame;

/// Longest line with a kind, a length or an error, in bytes.
const LINE_LIMIT: usize = 64 << 10;

/// The bytes are not a valid answer, or exceed a bound of this module.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl fmt::Display for Malformed {
    /// Writes the violated rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed RESP answer: {}", self.0)
    }
}

/// The answers to the commands of one exchange.
#[derive(Debug, Default)]
pub struct Answers {
    bytes: AnswerBuffer,
    /// End of the complete items.
    at: usize,
    /// No line ending lies between `at` and this offset.
    searched: usize,
    /// Number of missing items; a list adds its length.
    left: usize,
}

/// One item; the elements of a list follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A status such as `OK`.
    Status(&'a [u8]),
    /// An error, in the server's words.
    Error(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A string.
    Bulk(&'a [u8]),
    /// A null string or list.
    Null,
    /// A list; this number of items follows.
    List(usize),
}

/// A position in complete answers.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl Answers {
    /// Prepares for the answers to this number of commands.
    pub fn begin(&mut self, commands: usize) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.begin();
        *self = Self { bytes, left: commands, ..Self::default() };
    }

    /// Returns a reader of the complete answers.
    pub fn read(&self) -> Reader<'_> {
        Reader::new(&self.bytes[..self.at])
    }

    /// Returns whether all answers are complete.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Processes one item of the available bytes; returns false if it needs more bytes. Fails if the item is malformed
    /// or longer than the limits.
    fn step(&mut self) -> Result<bool, Malformed> {
        let from = self.searched.max(self.at);
        let Some(length_of_line) = memchr(b'\n', &self.bytes[from..]) else {
            self.searched = self.bytes.len();
            return if self.bytes.len() - self.at > LINE_LIMIT {
                Err(Malformed("a line without an end"))
            } else {
                Ok(false)
            };
        };
        let end = from + length_of_line + 1;
        self.searched = from;
        let (item, after) = match item(&self.bytes[self.at..end])? {
            // The string itself is checked only once its line is complete, so this line may be parsed several times.
            ResponseLine::Bulk(length) => (None, end + length + 2),
            ResponseLine::Item(Item::List(elements)) => (Some(elements), end),
            ResponseLine::Item(_) => (None, end),
        };
        if after > self.bytes.len() {
            return Ok(false);
        }
        if after > end && &self.bytes[after - 2..after] != b"\r\n" {
            return Err(Malformed("a text that does not end where it should"));
        }
        self.left = self.left - 1 + item.unwrap_or(0);
        if self.left > LIMIT {
            return Err(Malformed("too many items"));
        }
        (self.at, self.searched) = (after, after);
        Ok(true)
    }
}

impl Frame for Answers {
    type Error = Malformed;

    /// Returns the buffer for the next bytes; never empty. Fails if the answer exceeds the size limit.
    fn space(&mut self) -> Result<&mut [u8], Malformed> {
        self.bytes.space(LIMIT).ok_or(Malformed("it is longer than 64 MiB"))
    }

    /// Adds `count` bytes that were written to `space`. Returns whether all expected answers are complete; fails if
    /// they are malformed.
    fn advance(&mut self, count: usize) -> Result<bool, Malformed> {
        self.bytes.advance(count);
        while self.left > 0 && self.step()? {}
        Ok(self.left == 0)
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

/// The item that a line starts.
enum ResponseLine<'a> {
    Item(Item<'a>),
    /// A string of this length in bytes.
    Bulk(usize),
}

/// Parses the line of one item, including its ending. Of a string, the line has only the length. Fails for an unknown
/// kind, a malformed number, or a length above 64 Mi.
fn item(line: &[u8]) -> Result<ResponseLine<'_>, Malformed> {
    let (Some(text), Some(kind)) = (line.strip_suffix(b"\r\n"), line.first()) else {
        return Err(Malformed("a line without its end"));
    };
    let rest = text.get(1..).ok_or(Malformed("an empty line"))?;
    Ok(match kind {
        b'+' => ResponseLine::Item(Item::Status(rest)),
        b'-' => ResponseLine::Item(Item::Error(rest)),
        b':' => ResponseLine::Item(Item::Int(number(rest)?)),
        b'$' => length(rest)?.map_or(ResponseLine::Item(Item::Null), ResponseLine::Bulk),
        b'*' => ResponseLine::Item(length(rest)?.map_or(Item::Null, Item::List)),
        _ => return Err(Malformed("an item of an unknown kind")),
    })
}

/// Parses a whole number; fails for other text.
fn number(digits: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok()).ok_or(Malformed("a malformed number"))
}

/// Parses a length up to 64 Mi; `None` stands for -1, a null. Fails for other numbers.
fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(digits)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= LIMIT => Ok(Some(length)),
            _ => Err(Malformed("a length beyond the limit")),
        },
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which must be whole items.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Returns the next item and moves behind it; `None` at the end, or if the bytes are malformed.
    pub fn next(&mut self) -> Option<Item<'a>> {
        let bytes = self.0;
        let end = memchr(b'\n', bytes)? + 1;
        match item(&bytes[..end]).ok()? {
            ResponseLine::Item(item) => {
                self.0 = &bytes[end..];
                Some(item)
            }
            ResponseLine::Bulk(length) => {
                let text = bytes.get(end..end + length)?;
                self.0 = bytes.get(end + length + 2..)?;
                Some(Item::Bulk(text))
            }
        }
    }

    /// Skips the next item, including its elements.
    pub fn skip(&mut self) {
        let mut left = 1;
        while left > 0 {
            match self.next() {
                Some(Item::List(elements)) => left = left + elements - 1,
                Some(_) => left -= 1,
                None => return,
            }
        }
    }

    /// Takes the next item; returns it if it is a string or a status, or `None`.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        match self.next()? {
            Item::Bulk(text) | Item::Status(text) => Some(text),
            _ => None,
        }
    }

    /// Takes the next item; returns it if it is an integer, or `None`.
    pub fn int(&mut self) -> Option<i64> {
        match self.next()? {
            Item::Int(number) => Some(number),
            _ => None,
        }
    }

    /// Takes the next item; returns its number of elements, which follow, if it is a list, or `None`.
    pub fn list(&mut self) -> Option<usize> {
        match self.next()? {
            Item::List(elements) => Some(elements),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `text` in pieces of `step` bytes, as the answers to `commands` commands. Returns whether they are
    /// complete, and the answers.
    fn feed(text: &[u8], commands: usize, step: usize) -> Result<(bool, Answers), Malformed> {
        let mut answers = Answers::default();
        answers.begin(commands);
        let mut complete = false;
        for piece in text.chunks(step) {
            let space = answers.space()?;
            space[..piece.len()].copy_from_slice(piece);
            complete = answers.advance(piece.len())?;
        }
        Ok((complete, answers))
    }

    #[test]
    fn answers_are_complete_with_their_last_byte_however_they_come() {
        let text = b"*3\r\n$3\r\na\nb\r\n*-1\r\n*2\r\n:-7\r\n$-1\r\n+OK\r\n-ERR no\r\n$0\r\n\r\n";
        for step in 1..text.len() {
            let (complete, answers) = feed(text, 4, step).unwrap();
            assert!(complete && answers.reusable());
            let mut reader = answers.read();
            let mut items = Vec::new();
            while let Some(item) = reader.next() {
                items.push(item);
            }
            let (a, b) = (Item::Bulk(b"a\nb"), Item::Bulk(b""));
            let no = Item::Error(b"ERR no");
            assert_eq!(
                items,
                [Item::List(3), a, Item::Null, Item::List(2), Item::Int(-7), Item::Null, Item::Status(b"OK"), no, b]
            );
        }
        for cut in 0..text.len() {
            assert!(!feed(&text[..cut], 4, 7).unwrap().0, "{cut}");
        }
    }

    #[test]
    fn unrequested_answers_end_the_connection() {
        let (complete, answers) = feed(b"+OK\r\n+OK\r\n", 1, 100).unwrap();
        assert!(complete && !answers.reusable());
    }

    #[test]
    fn a_hostile_answer_is_an_error_and_takes_no_room() {
        for text in [
            &b"$99999999999999999999\r\n"[..],
            b"$-2\r\n",
            b"$1099511627776\r\n",
            b"*9223372036854775807\r\n",
            b"*268435456\r\n*268435456\r\n",
            b":1x\r\n",
            b"$3\r\nabcde\r\n",
            b"+OK\n",
            b"\n",
            b"\r\n",
            b"HTTP/1.1 400 Bad Request\r\n",
            b"$\xff\r\n",
        ] {
            assert!(feed(text, 1, 3).is_err(), "{}", text.escape_ascii());
        }
        let endless = vec![b'+'; LINE_LIMIT * 2];
        assert_eq!(feed(&endless, 1, 1024).unwrap_err(), Malformed("a line without an end"));
    }

    #[test]
    fn lists_in_lists_are_passed_over_without_recursion() {
        let mut text = b"*1\r\n".repeat(100_000);
        text.extend_from_slice(b":1\r\n:2\r\n");
        let (complete, answers) = feed(&text, 2, 8192).unwrap();
        assert!(complete);
        let mut reader = answers.read();
        reader.skip();
        assert_eq!(reader.int(), Some(2));
    }
}
