//! A server that answers at once and keeps nothing: what is left of a measurement against it is the generator's cost.
//!
//! It speaks as much HTTP/1.1 as the drivers do, over loopback, from one thread: bulk requests succeed for each of their
//! documents, searches find nothing, and everything else is an empty object. It looks at no more of a request than that
//! takes: the path, the length, and the number of lines in the body of a bulk request.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use memchr::{memchr_iter, memmem};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

const SEARCH: &[u8] =
    b"{\"took\":0,\"timed_out\":false,\"_shards\":{\"total\":1,\"successful\":1,\"skipped\":0,\"failed\":0},\
\"hits\":{\"total\":{\"value\":0,\"relation\":\"eq\"},\"max_score\":null,\"hits\":[]}}";
const BULK: &[u8] = b"{\"took\":0,\"errors\":false,\"items\":[";
/// As long as a store's own, which the client has to read.
const ITEM: &[u8] =
    b"{\"index\":{\"_index\":\"collection\",\"_id\":\"0123456789abcdefghij\",\"_version\":1,\"result\":\"created\",\
\"_shards\":{\"total\":1,\"successful\":1,\"failed\":0},\"_seq_no\":0,\"_primary_term\":1,\"status\":201}},";

/// What a connection reads at once.
const CHUNK: usize = 256 * 1024;

/// The longest head that is taken for one.
const HEAD: usize = 16 * 1024;

/// The server; it ends when this is dropped.
pub struct NullServer {
    address: SocketAddr,
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts the server on a free port of loopback, in a thread of its own.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let end = Arc::new(Notify::new());
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("null-server".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener) => {}
                    () = ended.notified() => {}
                }
            });
        })?;
        Ok(Self { address, end, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: std::net::TcpListener) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    // Answers to bulk requests are cut from this; it grows with the largest.
    let items = Rc::new(std::cell::RefCell::new(Vec::new()));
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let items = items.clone();
        connections.spawn_local(async move {
            let mut connection = Connection { stream, read: vec![0; CHUNK], from: 0, to: 0, answer: Vec::new() };
            // A client that goes, or talks something else, is let go.
            while let Ok(Some(request)) = connection.request().await {
                connection.fill(&request, &mut items.borrow_mut());
                if connection.send().await.is_err() {
                    break;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// What an answer depends on.
struct Request {
    kind: Kind,
    /// Lines of the body.
    lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bulk,
    Search,
    Other,
}

struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    /// What was read and not looked at yet lies between these.
    from: usize,
    to: usize,
    answer: Vec<u8>,
}

impl Connection {
    /// Reads a request to its end, keeping nothing of its body; `None` when the client has gone.
    async fn request(&mut self) -> io::Result<Option<Request>> {
        let (kind, mut left) = loop {
            let unread = &self.read[self.from..self.to];
            if let Some(end) = memmem::find(unread, b"\r\n\r\n") {
                let head = &unread[..end];
                let found = (kind_of(head), length_of(head));
                self.from += end + 4;
                break found;
            }
            if unread.len() > HEAD {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            self.read.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            if !self.more().await? {
                return Ok(None);
            }
        };
        let mut lines = 0;
        loop {
            let here = left.min(self.to - self.from);
            if kind == Kind::Bulk {
                lines += memchr_iter(b'\n', &self.read[self.from..self.from + here]).count();
            }
            self.from += here;
            left -= here;
            if left == 0 {
                return Ok(Some(Request { kind, lines }));
            }
            (self.from, self.to) = (0, 0);
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads what has come behind what there is; false at the end.
    async fn more(&mut self) -> io::Result<bool> {
        loop {
            self.stream.readable().await?;
            match self.stream.try_read(&mut self.read[self.to..]) {
                Ok(read) => {
                    self.to += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, request: &Request, items: &mut Vec<u8>) {
        let fixed: &[u8] = match request.kind {
            Kind::Bulk => BULK,
            Kind::Search => SEARCH,
            Kind::Other => b"{}",
        };
        // Each document is two lines: what is to be done with it, and itself. The last item goes without its comma.
        let documents = request.lines / 2;
        let carried = (documents * ITEM.len()).saturating_sub(1);
        while items.len() < carried {
            items.extend_from_slice(ITEM);
        }
        let end: &[u8] = if request.kind == Kind::Bulk { b"]}" } else { b"" };
        let length = fixed.len() + carried + end.len();
        self.answer.clear();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        self.answer.extend_from_slice(head.as_bytes());
        self.answer.extend_from_slice(length.to_string().as_bytes());
        self.answer.extend_from_slice(b"\r\n\r\n");
        for part in [fixed, &items[..carried], end] {
            self.answer.extend_from_slice(part);
        }
    }

    async fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.answer.len() {
            match self.stream.try_write(&self.answer[sent..]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Told by the end of the path, before its query.
fn kind_of(head: &[u8]) -> Kind {
    let path = head.split(|byte| matches!(byte, b' ' | b'?')).nth(1).unwrap_or_default();
    match path {
        path if path.ends_with(b"/_bulk") => Kind::Bulk,
        path if path.ends_with(b"/_search") => Kind::Search,
        _ => Kind::Other,
    }
}

/// The body's length; 0 where the head has none.
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

    fn ask(stream: &mut std::net::TcpStream, request: &str) {
        stream.write_all(request.as_bytes()).unwrap();
    }

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

    fn post(path: &str, body: &str) -> String {
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[test]
    fn it_answers_each_request_as_a_store_that_does_nothing() {
        let server = NullServer::start().unwrap();
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
        let server = NullServer::start().unwrap();
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

    #[test]
    fn it_ends_with_its_owner() {
        let server = NullServer::start().unwrap();
        let address = server.address();
        let _open = std::net::TcpStream::connect(address).unwrap();
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}
