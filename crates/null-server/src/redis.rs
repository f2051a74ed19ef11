//! The part of RESP that the driver uses: a single server, not a cluster, that finds everything.

use std::io;

use super::Protocol;

/// One connection, without state.
pub struct Redis;

impl Protocol for Redis {
    /// Answers complete commands; returns the number of their bytes. Refuses malformed ones.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((name, length)) = command(&read[taken..])? {
            answers.extend_from_slice(answer(name));
            taken += length;
        }
        Ok(taken)
    }
}

/// Returns the answer to the command of this name.
fn answer(name: &[u8]) -> &'static [u8] {
    match name {
        b"CLUSTER" => b"-ERR This instance has cluster support disabled\r\n",
        b"GET" => b"$5\r\nvalue\r\n",
        b"HGETALL" | b"HMGET" => b"*2\r\n$5\r\nfield\r\n$5\r\nvalue\r\n",
        b"SET" | b"AUTH" | b"SELECT" => b"+OK\r\n",
        _ => b":1\r\n",
    }
}

/// Returns the name of the command at the start and the command's length in bytes, or `None` if it is incomplete.
/// Refuses malformed ones.
fn command(read: &[u8]) -> io::Result<Option<(&[u8], usize)>> {
    let Some((words, mut at)) = number(read, 0, b'*')? else { return Ok(None) };
    let mut name: &[u8] = b"";
    for word in 0..words {
        let Some((length, start)) = number(read, at, b'$')? else { return Ok(None) };
        at = start + length + 2;
        if at > read.len() {
            return Ok(None);
        }
        if word == 0 {
            name = &read[start..start + length];
        }
    }
    Ok(Some((name, at)))
}

/// Reads the number on the line at offset `at`, which begins with `mark`. Returns it with the start of the next line,
/// or `None` if the line is incomplete. Refuses other lines.
fn number(read: &[u8], at: usize, mark: u8) -> io::Result<Option<(usize, usize)>> {
    let line = &read[at..];
    let Some(end) = memchr::memchr(b'\n', line) else { return Ok(None) };
    let digits = line[..end].strip_suffix(b"\r").and_then(|line| line.strip_prefix(&[mark]));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    number.map_or(Err(io::ErrorKind::InvalidData.into()), |number| Ok(Some((number as usize, at + end + 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_whole_command_has_its_answer_and_the_rest_waits() {
        let read =
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*4\r\n$4\r\nHSET\r\n$1\r\nk\r\n$1\r\nf\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPI";
        let mut answers = Vec::new();
        assert_eq!(Redis.take(read, &mut answers).unwrap(), read.len() - 10);
        assert_eq!(answers, b"$5\r\nvalue\r\n:1\r\n");
    }

    #[test]
    fn a_malformed_command_ends_the_connection() {
        for read in [&b"GET / HTTP/1.1\r\n"[..], b"*-1\r\n", b"*1\r\n:1\r\n", b"*99999999999\r\n"] {
            assert!(Redis.take(read, &mut Vec::new()).is_err());
        }
    }
}
