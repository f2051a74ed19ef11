//! The part of the Couchbase protocols that the driver uses: a bucket with one vbucket on one node, with a document for
//! each key. One port serves key-value requests and the configuration over HTTP.

use std::io;
use std::net::SocketAddr;

use memchr::memmem;
use serde_json::json;

use super::Protocol;

/// Head of a key-value request, with the length of the rest.
const HEAD: usize = 24;
const REQUESTS: [u8; 2] = [0x80, 0x08];
const ANSWER: u8 = 0x81;
const GET: u8 = 0x00;
/// Maximum length of a request, as in real servers.
const LONGEST: usize = 32 * 1024 * 1024;
/// Maximum length of an HTTP head.
const LONGEST_HTTP: usize = 16 * 1024;
const DOCUMENT: &[u8] = b"{\"text\":\"value\"}";

/// One connection.
pub struct Couchbase {
    configuration: String,
}

impl Couchbase {
    /// Creates the protocol state of one connection. Only the port of `address` is used: the configuration that
    /// clients receive names the host as `$HOST`, which they replace with the address they connected to.
    pub fn new(address: SocketAddr) -> Self {
        let port = address.port();
        let configuration = json!({
            "rev": 1,
            "nodesExt": [{"services": {"mgmt": port, "kv": port}}],
            "vBucketServerMap": {"serverList": [format!("$HOST:{port}")], "vBucketMap": [[0]]},
        });
        Self { configuration: configuration.to_string() }
    }
}

impl Protocol for Couchbase {
    /// Answers complete key-value requests, and HTTP requests with the configuration; returns the number of bytes of
    /// these requests. Refuses other bytes and long requests.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(first) = read.get(taken) {
            let rest = &read[taken..];
            if REQUESTS.contains(first) {
                let Some(head) = rest.first_chunk::<HEAD>() else { break };
                let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
                if body > LONGEST {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if rest.len() < HEAD + body {
                    break;
                }
                answer(head, answers);
                taken += HEAD + body;
            } else {
                let Some(end) = memmem::find(rest, b"\r\n\r\n") else {
                    if !rest.starts_with(b"GET ") && rest.len() >= 4 || rest.len() > LONGEST_HTTP {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    break;
                };
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
                answers.extend_from_slice(head.as_bytes());
                answers.extend_from_slice(self.configuration.len().to_string().as_bytes());
                answers.extend_from_slice(b"\r\n\r\n");
                answers.extend_from_slice(self.configuration.as_bytes());
                taken += end + 4;
            }
        }
        Ok(taken)
    }
}

/// Appends a success answer to the request with this head. For a read, adds the flags and the document.
fn answer(head: &[u8; HEAD], answers: &mut Vec<u8>) {
    let (flags, value): (&[u8], &[u8]) = if head[1] == GET { (&[0; 4], DOCUMENT) } else { (b"", b"") };
    let body = (flags.len() + value.len()) as u32;
    answers.extend_from_slice(&[ANSWER, head[1], 0, 0, flags.len() as u8, 0, 0, 0]);
    answers.extend_from_slice(&body.to_be_bytes());
    answers.extend_from_slice(&head[12..16]);
    answers.extend_from_slice(&[0; 8]);
    answers.extend_from_slice(flags);
    answers.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Sends `read` to a new connection. Returns the number of processed bytes and the answers.
    fn taken(read: &[u8]) -> io::Result<(usize, Vec<u8>)> {
        let mut answers = Vec::new();
        let taken = Couchbase::new((Ipv4Addr::LOCALHOST, 7).into()).take(read, &mut answers)?;
        Ok((taken, answers))
    }

    /// Returns a request that reads a document.
    fn get(key: &[u8]) -> Vec<u8> {
        let mut request = vec![0x80, GET, 0, key.len() as u8, 0, 0, 0, 0, 0, 0, 0, key.len() as u8];
        request.extend_from_slice(&[9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        request.extend_from_slice(key);
        request
    }

    #[test]
    fn each_whole_request_is_answered_and_the_rest_waits() {
        let (taken, answers) = taken(&[get(b"ann"), get(b"bob")[..20].to_vec()].concat()).unwrap();
        assert_eq!(taken, HEAD + 3);
        assert_eq!(&answers[..16], [0x81, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 4 + DOCUMENT.len() as u8, 9, 9, 9, 9]);
        assert!(answers.ends_with(DOCUMENT));
    }

    #[test]
    fn the_configuration_names_this_server() {
        let read = b"GET /pools/default/b/c HTTP/1.1\r\nhost: x\r\n\r\n";
        let (taken, answers) = taken(read).unwrap();
        assert_eq!(taken, read.len());
        assert!(memmem::find(&answers, b"\"$HOST:7\"").is_some());
    }

    #[test]
    fn a_malformed_request_ends_the_connection() {
        let mut endless = get(b"");
        endless[8] = 0xff;
        for read in [&b"POST / HTTP/1.1\r\n"[..], &endless] {
            assert!(taken(read).is_err());
        }
    }
}
