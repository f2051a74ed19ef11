//! The part of HTTP/1.1 that the drivers use. Bulk requests succeed for each document, searches find nothing, and other
//! requests return an empty object.
//!
//! The server reads only the path, the length, and the number of lines in a bulk request's body.

use std::io;

use memchr::{memchr_iter, memmem};

use super::Protocol;

const SEARCH: &[u8] =
    b"{\"took\":0,\"timed_out\":false,\"_shards\":{\"total\":1,\"successful\":1,\"skipped\":0,\"failed\":0},\
\"hits\":{\"total\":{\"value\":0,\"relation\":\"eq\"},\"max_score\":null,\"hits\":[]}}";
const BULK: &[u8] = b"{\"took\":0,\"errors\":false,\"items\":[";
/// As long as a real store's item, which the client has to read.
const ITEM: &[u8] =
    b"{\"index\":{\"_index\":\"collection\",\"_id\":\"0123456789abcdefghij\",\"_version\":1,\"result\":\"created\",\
\"_shards\":{\"total\":1,\"successful\":1,\"failed\":0},\"_seq_no\":0,\"_primary_term\":1,\"status\":201}},";

/// Maximum length of a head.
const HEAD: usize = 16 * 1024;

/// One connection.
#[derive(Default)]
pub struct Http {
    /// A request with an incomplete body.
    open: Option<Request>,
    /// Prebuilt items of bulk answers. Grows to the largest answer.
    items: Vec<u8>,
}

/// The request data that determine the answer.
struct Request {
    kind: Kind,
    /// Number of missing bytes of the body.
    left: usize,
    /// Number of lines of the body so far.
    lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bulk,
    Search,
    Other,
}

impl Protocol for Http {
    /// Answers complete requests; counts the lines of bulk requests without keeping them. Returns the number of
    /// processed bytes, which may end within a body. Refuses heads over 16 KiB.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize> {
        let mut taken = 0;
        loop {
            let unread = &read[taken..];
            let mut request = match self.open.take() {
                Some(request) => request,
                None => {
                    let Some(end) = memmem::find(unread, b"\r\n\r\n") else {
                        let bounded = unread.len() <= HEAD;
                        return if bounded { Ok(taken) } else { Err(io::ErrorKind::InvalidData.into()) };
                    };
                    taken += end + 4;
                    Request { kind: kind_of(&unread[..end]), left: length_of(&unread[..end]), lines: 0 }
                }
            };
            let body = &read[taken..][..request.left.min(read.len() - taken)];
            if request.kind == Kind::Bulk {
                request.lines += memchr_iter(b'\n', body).count();
            }
            request.left -= body.len();
            taken += body.len();
            if request.left > 0 {
                self.open = Some(request);
                return Ok(taken);
            }
            self.answer(&request, answers);
        }
    }
}

impl Http {
    /// Appends the answer to a request: an item for each document of a bulk request, no hits for a search, else an
    /// empty object.
    fn answer(&mut self, request: &Request, answers: &mut Vec<u8>) {
        let (fixed, end): (&[u8], &[u8]) = match request.kind {
            Kind::Bulk => (BULK, b"]}"),
            Kind::Search => (SEARCH, b""),
            Kind::Other => (b"{}", b""),
        };
        // Each document is two lines: the action and the document. The last item omits its comma.
        let carried = (request.lines / 2 * ITEM.len()).saturating_sub(1);
        while self.items.len() < carried {
            self.items.extend_from_slice(ITEM);
        }
        let length = fixed.len() + carried + end.len();
        answers.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ");
        answers.extend_from_slice(length.to_string().as_bytes());
        answers.extend_from_slice(b"\r\n\r\n");
        for part in [fixed, &self.items[..carried], end] {
            answers.extend_from_slice(part);
        }
    }
}

/// Classifies a request by the end of its path, before the query.
fn kind_of(head: &[u8]) -> Kind {
    let path = head.split(|byte| matches!(byte, b' ' | b'?')).nth(1).unwrap_or_default();
    match path {
        path if path.ends_with(b"/_bulk") => Kind::Bulk,
        path if path.ends_with(b"/_search") => Kind::Search,
        _ => Kind::Other,
    }
}

/// Returns the body's length in bytes that the head states; 0 if it states none.
fn length_of(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    head.split(|byte| *byte == b'\n')
        .find(|line| line.len() >= NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))
        .and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use serde_json::Value;

    use super::*;
    use crate::NullServer;

    /// Sends a request.
    fn ask(stream: &mut std::net::TcpStream, request: &str) {
        stream.write_all(request.as_bytes()).unwrap();
    }

    /// Receives an answer with status 200 and returns its body.
    fn answer(stream: &mut std::net::TcpStream) -> Value {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let mut body = vec![0; length_of(&head)];
        stream.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// Returns the text of a POST request.
    fn post(path: &str, body: &str) -> String {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// Checks the answers to a search, to bulk requests of several sizes, and to another request.
    #[test]
    fn it_answers_each_request_as_a_store_that_does_nothing() {
        let server = NullServer::start("http").unwrap();
        let mut client = std::net::TcpStream::connect(server.address()).unwrap();
        ask(&mut client, &post("/c/_search?size=0", "{}"));
        assert_eq!(answer(&mut client)["hits"]["total"]["value"], 0);
        for documents in [0, 1, 3, 5000] {
            ask(&mut client, &post("/c/_bulk", &"{\"index\":{}}\n{\"a\":1}\n".repeat(documents)));
            let answer = answer(&mut client);
            assert_eq!(answer["errors"], false);
            assert_eq!(answer["items"].as_array().unwrap().len(), documents);
        }
        ask(&mut client, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(answer(&mut client), serde_json::json!({}));
    }

    #[test]
    fn requests_that_come_in_pieces_or_together_are_answered_one_by_one() {
        let server = NullServer::start("http").unwrap();
        let mut client = std::net::TcpStream::connect(server.address()).unwrap();
        client.set_nodelay(true).unwrap();
        let request = post("/c/_bulk", "{\"index\":{}}\n{\"a\":1}\n");
        for piece in request.as_bytes().chunks(7) {
            client.write_all(piece).unwrap();
        }
        assert_eq!(answer(&mut client)["items"].as_array().unwrap().len(), 1);
        ask(&mut client, &(request.clone() + &post("/c/_search", "{}") + &request));
        assert_eq!(answer(&mut client)["items"].as_array().unwrap().len(), 1);
        assert_eq!(answer(&mut client)["timed_out"], false);
        assert_eq!(answer(&mut client)["items"].as_array().unwrap().len(), 1);
    }
}
