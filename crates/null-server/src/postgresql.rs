//! The part of the PostgreSQL protocol that the driver uses. The server is a primary with one table. It finds every
//! requested row and accepts every written row.

use std::collections::HashMap;
use std::io;

use super::Protocol;

/// Codes that a client sends as the version number to request TLS, or to cancel a query.
const TLS: u32 = 80_877_103;
const CANCEL: u32 = 80_877_102;
/// The OIDs of two types.
const TEXT: u32 = 25;
const JSONB: u32 = 3802;
/// Columns of the only table.
const ID: &str = "id";
const DOCUMENT: &str = "document";
const READY: &[u8] = b"Z\0\0\0\x05I";

/// One connection.
#[derive(Default)]
pub struct Postgres {
    began: bool,
    statements: HashMap<Vec<u8>, Statement>,
    /// The statement bound to the unnamed portal.
    bound: Statement,
}

/// A prepared statement.
#[derive(Clone, Copy, Default)]
struct Statement {
    reads: bool,
    /// Number of parameters.
    values: u16,
}

impl Statement {
    /// Creates a statement from its text: whether it is a SELECT, and the number of `$` in it as its parameters.
    fn new(text: &[u8]) -> Self {
        let values = memchr::memchr_iter(b'$', text).count() as u16;
        Self { reads: text.starts_with(b"SELECT"), values }
    }
}

impl Protocol for Postgres {
    /// Answers complete messages; returns the number of their bytes. Refuses malformed ones.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        // The first message of a connection lacks the kind byte.
        while let Some((kind, body, length)) = message(&read[taken..], self.began)? {
            match kind {
                None => self.begin(body, answers)?,
                Some(kind) => self.answer(kind, body, answers)?,
            }
            taken += length;
        }
        Ok(taken)
    }
}

impl Postgres {
    /// Answers the first message of a connection: refuses TLS, admits any user. Fails for one that cancels a query.
    fn begin(&mut self, body: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        match body.first_chunk().map(|code| u32::from_be_bytes(*code)) {
            Some(TLS) => answers.push(b'N'),
            Some(CANCEL) | None => return Err(io::ErrorKind::ConnectionAborted.into()),
            Some(_) => {
                self.began = true;
                add(answers, b'R', &[0; 4]);
                add(answers, b'K', &[0; 8]);
                answers.extend_from_slice(READY);
            }
        }
        Ok(())
    }

    /// Answers a message of kind `kind`, its first byte. Refuses unknown kinds and statements.
    fn answer(&mut self, kind: u8, body: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        match kind {
            b'Q' => question(body, answers),
            b'P' => {
                let (name, rest) = text(body)?;
                self.statements.insert(name.to_vec(), Statement::new(text(rest)?.0));
                add(answers, b'1', &[]);
            }
            b'D' => {
                let (name, _) = text(body.get(1..).unwrap_or_default())?;
                describe(self.statement(name)?, answers);
            }
            b'B' => {
                let (_portal, rest) = text(body)?;
                self.bound = self.statement(text(rest)?.0)?;
                add(answers, b'2', &[]);
            }
            b'E' if self.bound.reads => {
                // In binary form, as the driver requests. A jsonb value starts with its version.
                row(answers, &[b"key", b"\x01{\"field\": \"value\"}"]);
                add(answers, b'C', b"SELECT 1\0");
            }
            b'E' => add(answers, b'C', format!("INSERT 0 {}\0", self.bound.values / 2).as_bytes()),
            b'C' => add(answers, b'3', &[]),
            b'S' => answers.extend_from_slice(READY),
            b'H' => {}
            _ => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        Ok(())
    }

    /// Returns the prepared statement of that name; fails if there is none.
    fn statement(&self, name: &[u8]) -> io::Result<Statement> {
        self.statements.get(name).copied().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Answers a query of the simple protocol: server information, the columns of the table, or no rows for another one.
fn question(body: &[u8], answers: &mut Vec<u8>) {
    let asks_for = |word: &[u8]| memchr::memmem::find(body, word).is_some();
    if asks_for(b"pg_is_in_recovery") {
        columns(answers, &[("role", TEXT), ("read_only", TEXT)]);
        row(answers, &[b"f", b"off"]);
    } else if asks_for(b"pg_attribute") {
        columns(answers, &[("name", TEXT), ("type", TEXT), ("key", TEXT)]);
        row(answers, &[ID.as_bytes(), b"text", b"t"]);
        row(answers, &[DOCUMENT.as_bytes(), b"jsonb", b"f"]);
    }
    add(answers, b'C', b"SELECT 0\0");
    answers.extend_from_slice(READY);
}

/// Appends the types of a statement's parameters, alternately ids and documents, and of its columns.
fn describe(statement: Statement, answers: &mut Vec<u8>) {
    let mut types = statement.values.to_be_bytes().to_vec();
    for value in 0..statement.values {
        types.extend_from_slice(&if value % 2 == 0 { TEXT } else { JSONB }.to_be_bytes());
    }
    add(answers, b't', &types);
    if statement.reads {
        columns(answers, &[(ID, TEXT), (DOCUMENT, JSONB)]);
    } else {
        add(answers, b'n', &[]);
    }
}

/// Appends the description of columns, each with a name and a type's OID.
fn columns(answers: &mut Vec<u8>, columns: &[(&str, u32)]) {
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for (name, kind) in columns {
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0; 7]);
        body.extend_from_slice(&kind.to_be_bytes());
        // Variable length, no type modifier, format not yet chosen.
        body.extend_from_slice(b"\xff\xff\xff\xff\xff\xff\0\0");
    }
    add(answers, b'T', &body);
}

/// Appends a row of values, each in the form in which it is sent.
fn row(answers: &mut Vec<u8>, cells: &[&[u8]]) {
    let mut body = (cells.len() as u16).to_be_bytes().to_vec();
    for cell in cells {
        body.extend_from_slice(&(cell.len() as u32).to_be_bytes());
        body.extend_from_slice(cell);
    }
    add(answers, b'D', &body);
}

/// Appends a message: its kind, its length and `body`.
fn add(answers: &mut Vec<u8>, kind: u8, body: &[u8]) {
    answers.push(kind);
    answers.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    answers.extend_from_slice(body);
}

/// Splits off a zero-terminated string at the start. Returns it and the rest; fails without a zero.
fn text(body: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let end = memchr::memchr(0, body).ok_or(io::ErrorKind::InvalidData)?;
    Ok((&body[..end], &body[end + 1..]))
}

/// A message's kind, body and length in bytes.
type Message<'a> = (Option<u8>, &'a [u8], usize);

/// Returns the message at the start, or `None` if it is incomplete. `has_kind`: it starts with its kind, unlike the
/// first message of a connection. Refuses a length below 4.
fn message(read: &[u8], has_kind: bool) -> io::Result<Option<Message<'_>>> {
    let head = usize::from(has_kind);
    let Some(length) = read.get(head..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    let end = head + u32::from_be_bytes(*length) as usize;
    if end < head + 4 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(read.get(head + 4..end).map(|body| (has_kind.then(|| read[0]), body, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message of this kind.
    fn sent(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        add(&mut message, kind, body);
        message
    }

    /// Returns a connection that has answered its first message.
    fn begun() -> Postgres {
        let mut server = Postgres::default();
        let mut answers = Vec::new();
        // Version 3.0 without parameters.
        assert_eq!(server.take(b"\0\0\0\x09\0\x03\0\0\0", &mut answers).unwrap(), 9);
        assert!(answers.ends_with(READY));
        server
    }

    #[test]
    fn a_statement_is_prepared_and_executed() {
        let (mut server, mut answers) = (begun(), Vec::new());
        let text = b"s\0INSERT INTO t VALUES ($1, $2), ($3, $4)\0\0\0";
        let read = [sent(b'P', text), sent(b'B', b"\0s\0\0\0\0\0\0\0"), sent(b'E', b"\0\0\0\0\0"), sent(b'S', b"")];
        let read = read.concat();
        assert_eq!(server.take(&read[..read.len() - 1], &mut answers).unwrap(), read.len() - 5, "the rest waits");
        assert_eq!(server.take(&read[read.len() - 5..], &mut answers).unwrap(), 5);
        assert_eq!(answers, [&b"1\0\0\0\x04"[..], b"2\0\0\0\x04", b"C\0\0\0\x0fINSERT 0 2\0", READY].concat());
    }

    #[test]
    fn a_malformed_message_ends_the_connection() {
        let missing = sent(b'B', b"\0s\0\0\0");
        for read in [&b"Q\0\0\0\x01"[..], &missing, b"X\0\0\0\x04"] {
            assert!(begun().take(read, &mut Vec::new()).is_err(), "{read:?}");
        }
        assert!(Postgres::default().take(b"\0\0\0\x01", &mut Vec::new()).is_err());
    }
}
