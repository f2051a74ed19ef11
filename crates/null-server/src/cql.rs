//! The part of the Cassandra protocol (version 4) that the driver uses. The server acts as a cluster of one node with
//! one table, in which each statement finds one row or changes something.
//!
//! The id of a prepared statement is its text, so the server stores no statements.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::Protocol;

/// The only table: `id text PRIMARY KEY, text text`.
const KEYSPACE: &str = "loadframe";
const TABLE: &str = "nothing";

const HEADER: usize = 9;
/// Maximum length of a frame.
const LONGEST: usize = 64 * 1024 * 1024;

mod opcode {
    pub const ERROR: u8 = 0x00;
    pub const STARTUP: u8 = 0x01;
    pub const READY: u8 = 0x02;
    pub const OPTIONS: u8 = 0x05;
    pub const SUPPORTED: u8 = 0x06;
    pub const QUERY: u8 = 0x07;
    pub const RESULT: u8 = 0x08;
    pub const PREPARE: u8 = 0x09;
    pub const EXECUTE: u8 = 0x0A;
    pub const REGISTER: u8 = 0x0B;
}

mod result {
    pub const VOID: i32 = 1;
    pub const ROWS: i32 = 2;
    pub const SET_KEYSPACE: i32 = 3;
    pub const PREPARED: i32 = 4;
}

mod kind {
    pub const BOOLEAN: u16 = 0x04;
    pub const INT: u16 = 0x09;
    pub const UUID: u16 = 0x0C;
    pub const TEXT: u16 = 0x0D;
    pub const INET: u16 = 0x10;
    pub const LIST: u16 = 0x20;
    pub const MAP: u16 = 0x21;
    pub const SET: u16 = 0x22;
}

/// One connection.
pub struct Cql {
    address: IpAddr,
}

impl Cql {
    /// Creates a connection. `address` is the server's address, which clients receive as the node's address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address: address.ip() }
    }

    /// Appends the body of the answer to a request and returns the answer's opcode. `asked` is the request's opcode.
    /// Refuses other opcodes.
    fn answer(&self, asked: u8, body: &[u8], out: &mut Vec<u8>) -> io::Result<u8> {
        match asked {
            opcode::OPTIONS => {
                short(out, 1);
                string(out, "CQL_VERSION");
                short(out, 1);
                string(out, "3.4.7");
                Ok(opcode::SUPPORTED)
            }
            opcode::STARTUP | opcode::REGISTER => Ok(opcode::READY),
            opcode::QUERY => self.execute(text(body, 4)?, out),
            opcode::PREPARE => self.prepare(text(body, 4)?, out),
            opcode::EXECUTE => self.execute(text(body, 2)?, out),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Appends the result of a statement: rows of a SELECT, the keyspace of a USE, nothing for others, or the error
    /// for an unknown table. Returns the answer's opcode.
    fn execute(&self, statement: &str, out: &mut Vec<u8>) -> io::Result<u8> {
        if let Some(selection) = Selection::read(statement) {
            let Some(rows) = self.rows(selection.table) else { return Ok(unconfigured(out)) };
            int(out, result::ROWS);
            selection.describe(out);
            int(out, rows.len() as i32);
            for row in rows {
                for name in selection.columns() {
                    let value = row.iter().find(|(column, _)| *column == name).map(|(_, value)| value);
                    value.unwrap_or(&Cell::Text("")).write(out);
                }
            }
        } else if statement.starts_with("USE ") {
            int(out, result::SET_KEYSPACE);
            string(out, KEYSPACE);
        } else {
            int(out, result::VOID);
        }
        Ok(opcode::RESULT)
    }

    /// Appends the result of preparing a statement: its id, its markers and its columns, or the error for an unknown
    /// table. Returns the answer's opcode.
    fn prepare(&self, statement: &str, out: &mut Vec<u8>) -> io::Result<u8> {
        let selection = Selection::read(statement);
        if selection.as_ref().is_some_and(|selection| self.rows(selection.table).is_none()) {
            return Ok(unconfigured(out));
        }
        int(out, result::PREPARED);
        string(out, statement);
        let markers = statement.matches('?').count() as i32;
        let of_keyspaces = statement.ends_with(" in ?");
        int(out, 1);
        int(out, markers);
        // The key is the last marker of an UPDATE, and the first marker of other statements.
        let keyed = i32::from(markers > 0 && !of_keyspaces);
        int(out, keyed);
        if keyed == 1 {
            short(out, if statement.starts_with("UPDATE") { markers as u16 - 1 } else { 0 });
        }
        string(out, KEYSPACE);
        string(out, TABLE);
        for _ in 0..markers {
            string(out, "marker");
            (if of_keyspaces { &[kind::LIST, kind::TEXT][..] } else { &[kind::TEXT] })
                .iter()
                .for_each(|k| short(out, *k));
        }
        match selection {
            Some(selection) => selection.describe(out),
            None => {
                int(out, 0);
                int(out, 0);
            }
        }
        Ok(opcode::RESULT)
    }

    /// Returns the rows of a table, each with the names and values of its columns; `None` for an unknown system table.
    /// Every table outside the system has one row.
    fn rows(&self, table: &str) -> Option<Vec<Vec<(&'static str, Cell)>>> {
        let in_keyspace = || vec![("keyspace_name", Cell::Text(KEYSPACE))];
        let in_table = || vec![("keyspace_name", Cell::Text(KEYSPACE)), ("table_name", Cell::Text(TABLE))];
        let column = |name, kind, position| {
            let column_and_type =
                [("column_name", Cell::Text(name)), ("kind", Cell::Text(kind)), ("position", Cell::Int(position))];
            [in_table(), column_and_type.into(), vec![("type", Cell::Text("text"))]].concat()
        };
        Some(match table {
            "system.local" => vec![vec![
                ("host_id", Cell::Uuid([1; 16])),
                ("rpc_address", Cell::Inet(self.address)),
                ("data_center", Cell::Text("datacenter1")),
                ("rack", Cell::Text("rack1")),
                ("tokens", Cell::Texts(&["0"])),
                ("cluster_name", Cell::Text("null")),
            ]],
            "system_schema.keyspaces" => {
                let replication = ["class", "org.apache.cassandra.locator.SimpleStrategy", "replication_factor", "1"];
                let rest = vec![("replication", Cell::Map(replication)), ("durable_writes", Cell::Bool(true))];
                vec![[in_keyspace(), rest].concat()]
            }
            "system_schema.tables" => vec![in_table()],
            "system_schema.columns" => vec![column("id", "partition_key", 0), column("text", "regular", -1)],
            "system.peers" | "system_schema.types" | "system_schema.views" => Vec::new(),
            known if known.starts_with("system") => return None,
            _ => vec![vec![("id", Cell::Text("id")), ("text", Cell::Text("text"))]],
        })
    }
}

impl Protocol for Cql {
    /// Answers complete requests; returns the number of their bytes. Refuses frames over 64 MiB and unknown requests.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(header) = read[taken..].first_chunk::<HEADER>() {
            let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
            if length > LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let start = taken + HEADER;
            let Some(body) = read.get(start..start + length) else { break };
            let answer = answers.len();
            // Version 4, no flags, on the request's stream.
            answers.extend_from_slice(&[0x84, 0, header[2], header[3], 0, 0, 0, 0, 0]);
            answers[answer + 4] = self.answer(header[4], body, answers)?;
            let answered = (answers.len() - answer - HEADER) as u32;
            answers[answer + 5..answer + HEADER].copy_from_slice(&answered.to_be_bytes());
            taken = start + length;
        }
        Ok(taken)
    }
}

/// `SELECT columns FROM table ...`.
struct Selection<'a> {
    list: &'a str,
    table: &'a str,
}

impl<'a> Selection<'a> {
    /// Parses a statement; `None` if it is not a SELECT. `*` stands for both columns.
    fn read(statement: &'a str) -> Option<Self> {
        let (list, rest) = statement.strip_prefix("SELECT ")?.split_once(" FROM ")?;
        let list = if list == "*" { "id, text" } else { list };
        Some(Self { list, table: rest.split(' ').next().unwrap_or(rest) })
    }

    /// Iterates over the names of the selected columns, without quotes.
    fn columns(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list.split(", ").map(|name| name.trim_matches('"'))
    }

    /// Appends the metadata of the columns.
    fn describe(&self, out: &mut Vec<u8>) {
        int(out, 1);
        int(out, self.columns().count() as i32);
        string(out, KEYSPACE);
        string(out, TABLE);
        for name in self.columns() {
            string(out, name);
            kinds(name).iter().for_each(|kind| short(out, *kind));
        }
    }
}

/// Returns the type of a column by its name, as the protocol's type ids; text for other names.
fn kinds(column: &str) -> &'static [u16] {
    match column {
        "host_id" => &[kind::UUID],
        "rpc_address" => &[kind::INET],
        "tokens" => &[kind::SET, kind::TEXT],
        "replication" => &[kind::MAP, kind::TEXT, kind::TEXT],
        "durable_writes" => &[kind::BOOLEAN],
        "field_names" | "field_types" => &[kind::LIST, kind::TEXT],
        "position" => &[kind::INT],
        _ => &[kind::TEXT],
    }
}

#[derive(Clone, Copy)]
enum Cell {
    Text(&'static str),
    Int(i32),
    Bool(bool),
    Uuid([u8; 16]),
    Inet(IpAddr),
    Texts(&'static [&'static str]),
    Map([&'static str; 4]),
}

impl Cell {
    /// Appends the length of the value in bytes, 32 bits, and the value.
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        int(out, 0);
        match self {
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Int(number) => int(out, *number),
            Self::Bool(truth) => out.push(u8::from(*truth)),
            Self::Uuid(bytes) => out.extend_from_slice(bytes),
            Self::Inet(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
            Self::Inet(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
            Self::Texts(texts) => {
                int(out, texts.len() as i32);
                texts.iter().for_each(|text| Self::Text(text).write(out));
            }
            Self::Map(pairs) => {
                int(out, pairs.len() as i32 / 2);
                pairs.iter().for_each(|text| Self::Text(text).write(out));
            }
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends the error for an unknown table, and returns the answer's opcode.
fn unconfigured(out: &mut Vec<u8>) -> u8 {
    const INVALID: i32 = 0x2200;
    int(out, INVALID);
    string(out, "unconfigured table");
    opcode::ERROR
}

/// Returns the string with a length prefix of `bytes` bytes at the start of `body`. Refuses an incomplete string, and
/// one that is not UTF-8.
fn text(body: &[u8], bytes: usize) -> io::Result<&str> {
    let length = body.iter().take(bytes).fold(0, |length, byte| length << 8 | usize::from(*byte));
    let text = body.get(bytes..bytes + length).and_then(|text| std::str::from_utf8(text).ok());
    text.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Appends a 16-bit number, big-endian.
fn short(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends a 32-bit number, big-endian.
fn int(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends a string with a 16-bit length.
fn string(out: &mut Vec<u8>, text: &str) {
    short(out, text.len() as u16);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Returns a request on stream 7.
    fn request(opcode: u8, body: &[u8]) -> Vec<u8> {
        [&[4, 0, 0, 7, opcode], &(body.len() as u32).to_be_bytes()[..], body].concat()
    }

    /// Sends `read` to a new connection. Returns the number of processed bytes and the answers.
    fn taken(read: &[u8]) -> io::Result<(usize, Vec<u8>)> {
        let mut answers = Vec::new();
        let taken = Cql { address: Ipv4Addr::LOCALHOST.into() }.take(read, &mut answers)?;
        Ok((taken, answers))
    }

    #[test]
    fn each_whole_request_is_answered_on_its_stream_and_the_rest_waits() {
        let read = [request(opcode::OPTIONS, b""), request(opcode::STARTUP, b"\0\0")[..8].to_vec()].concat();
        let (taken, answer) = taken(&read).unwrap();
        assert_eq!(taken, HEADER);
        assert_eq!(answer[..5], [0x84, 0, 0, 7, opcode::SUPPORTED]);
        assert_eq!(answer[8] as usize, answer.len() - HEADER);
    }

    #[test]
    fn a_table_that_only_other_servers_have_is_refused() {
        let statement = "SELECT keyspace_name, partitioner FROM system_schema.scylla_tables";
        let body = [&(statement.len() as u32).to_be_bytes()[..], statement.as_bytes()].concat();
        assert_eq!(taken(&request(opcode::QUERY, &body)).unwrap().1[4], opcode::ERROR);
    }

    #[test]
    fn a_malformed_request_ends_the_connection() {
        let endless = [4, 0, 0, 0, opcode::QUERY, 0xff, 0xff, 0xff, 0xff];
        for read in [request(0x7f, b""), request(opcode::QUERY, b"\0\0\0\x09x"), endless.to_vec()] {
            assert!(taken(&read).is_err());
        }
    }
}
