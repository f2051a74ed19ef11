//! A server that plays a test's script over real sockets, and a client for it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use loadframe_drivers::search::Search;
use loadframe_engine::driver::{Context, Driver, ErrorClass, Failure, Reply};
use loadframe_engine::plan::Target;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::corpus::Corpora;
use loadframe_engine::workload::variables::Variables;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long a test's server waits for a client before the test fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener on loopback, with a thread that plays a script.
pub struct Server<T> {
    pub host: String,
    script: JoinHandle<T>,
}

impl<T: Send + 'static> Server<T> {
    /// Plays `script` with a listener on a free port.
    pub fn play(script: impl FnOnce(Listener) -> T + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        Self { host, script: thread::spawn(move || script(Listener(listener))) }
    }

    /// Returns the result of the script; fails if the script failed.
    pub fn finish(self) -> T {
        self.script.join().unwrap()
    }
}

pub struct Listener(TcpListener);

impl Listener {
    /// Accepts the next client.
    pub fn accept(&self) -> Peer {
        let socket = self.socket();
        Peer { stream: Box::new(socket.try_clone().unwrap()), socket }
    }

    /// Accepts the next client with TLS; the handshake happens at the first read.
    pub fn accept_tls(&self, config: &Arc<ServerConfig>) -> Peer {
        let socket = self.socket();
        let connection = ServerConnection::new(config.clone()).unwrap();
        Peer { stream: Box::new(StreamOwned::new(connection, socket.try_clone().unwrap())), socket }
    }

    fn socket(&self) -> TcpStream {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }
}

/// The server's end of a connection.
pub struct Peer {
    stream: Box<dyn Stream>,
    socket: TcpStream,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Peer {
    /// Reads the next request: its head and its body. `None` if the client closed the connection, or reading
    /// failed. Fails the test if the client is silent.
    pub fn request(&mut self) -> Option<(String, Vec<u8>)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1..) => head.push(byte[0]),
                Ok(0) => return None,
                Err(error) => {
                    assert!(error.kind() != ErrorKind::WouldBlock, "the client is silent");
                    return None;
                }
            }
        }
        let head = String::from_utf8(head).unwrap();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        Some((head, body))
    }

    /// Reads a request and answers it.
    pub fn answer(&mut self, text: &str) {
        self.request().expect("a request");
        self.send(text);
    }

    pub fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).unwrap();
    }

    /// Sends `text` repeatedly until the client closes the connection.
    pub fn send_for_ever(&mut self, text: &str) {
        while self.stream.write_all(text.as_bytes()).is_ok() {}
    }

    /// Closes the sending direction.
    pub fn end(&mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Waits until the client closes its end or reading fails, and returns true; also after [`PATIENCE`] of silence.
    /// Returns false if the client sends a byte, which is lost.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// Returns an answer of HTTP/1.1 with this JSON body and its Content-Length; `status` is such as `200 OK`.
pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A client of a driver, with its own runtime.
pub struct Client<D: Driver = Search> {
    pub driver: D,
    pub connection: D::Connection,
    pub context: Context,
    pub runtime: Runtime,
}

impl Client {
    /// Creates client number `number` of `hosts`.
    pub fn new(hosts: &[&str], number: u64) -> Self {
        Self::of(&target(hosts), number)
    }

    /// Creates client number `number` of a target.
    pub fn of(target: &Target, number: u64) -> Self {
        Self::with(target, number, &json!({"k": {"sequential": {"from": 0}}}))
    }
}

impl<D: Driver> Client<D> {
    /// Creates client number `number` of a target, with variables.
    pub fn with(target: &Target, number: u64, variables: &Value) -> Self {
        let mut driver = D::new(target).unwrap();
        if let Some(connections) = target.connections {
            driver.cap(connections, 1).unwrap();
        }
        let corpora =
            BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 100_000}))]);
        let context = Context {
            variables: Variables::parse(variables.as_object().unwrap()).unwrap(),
            corpora: Corpora::open(&corpora, 1).unwrap(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { connection: driver.connection(number), driver, context, runtime }
    }

    /// Sends request number `k` of an operation.
    pub fn execute(&mut self, form: &Value, k: u64) -> Reply {
        let operation = self.driver.map(form, &self.context).unwrap();
        let draw = Draw::new(1, 2, k);
        self.runtime.block_on(self.driver.execute(&mut self.connection, &operation, &self.context, &draw, None))
    }

    /// Resends the documents of request number `k` at these positions.
    pub fn resume(&mut self, form: &Value, k: u64, places: &[u32]) -> Reply {
        let operation = self.driver.map(form, &self.context).unwrap();
        let draw = Draw::new(1, 2, k);
        self.runtime.block_on(self.driver.execute(&mut self.connection, &operation, &self.context, &draw, Some(places)))
    }

    /// Runs the runtime for a while, as between two requests, so that it receives events of the kernel.
    pub fn pause(&self, milliseconds: u64) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(milliseconds)).await });
    }
}

/// Returns a target without encryption and credentials.
pub fn target(hosts: &[&str]) -> Target {
    serde_json::from_value(json!({"driver": "search", "hosts": hosts, "timeout": 10})).unwrap()
}

pub fn ping() -> Value {
    json!({"request": {"method": "GET", "path": "/"}})
}

pub fn search() -> Value {
    json!({"search": {"collection": "c", "body": {"query": {"term": {"k": "${k}"}}}}})
}

pub fn bulk(size: u64) -> Value {
    json!({"bulk": {"collection": "c", "corpus": "trips", "size": size}})
}

pub fn failure(outcome: Result<(), Failure>) -> (ErrorClass, String) {
    let failure = outcome.unwrap_err();
    (failure.class, failure.message)
}
