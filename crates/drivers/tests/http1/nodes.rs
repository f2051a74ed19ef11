//! HTTP nodes for tests of a changing cluster: they serve any number of clients, count requests, stop and restart.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::scripted::answer;

/// A node that answers every client while it runs. Dropping it stops it.
pub struct HttpNode {
    pub host: String,
    address: SocketAddr,
    counts: Arc<Counts>,
    running: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicU64,
    requests: AtomicU64,
    /// Pause before each answer.
    pause: Duration,
}

impl HttpNode {
    /// Starts a node.
    pub fn new() -> Self {
        let mut node = Self::stopped();
        node.start();
        node
    }

    /// Starts a node that waits this many milliseconds before each answer.
    pub fn slow(milliseconds: u64) -> Self {
        let mut node = Self::stopped();
        node.counts = Arc::new(Counts { pause: Duration::from_millis(milliseconds), ..Counts::default() });
        node.start();
        node
    }

    /// Creates a stopped node, which reserves its port.
    pub fn stopped() -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self { host: address.to_string(), address, counts: Arc::default(), running: None }
    }

    pub fn start(&mut self) {
        let listener = TcpListener::bind(self.address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), self.counts.clone());
        let told = stop.clone();
        let thread = thread::spawn(move || serve(&listener, &counts, &told));
        self.running = Some((stop, thread));
    }

    /// Closes all connections and accepts no new ones.
    pub fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        }
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// The number of answered requests.
    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }
}

impl Drop for HttpNode {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(listener: &TcpListener, counts: &Arc<Counts>, stop: &Arc<AtomicBool>) {
    let open: Mutex<Vec<TcpStream>> = Mutex::default();
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    counts.connections.fetch_add(1, Ordering::Relaxed);
                    stream.set_nonblocking(false).unwrap();
                    stream.set_nodelay(true).unwrap();
                    open.lock().unwrap().push(stream.try_clone().unwrap());
                    scope.spawn(move || converse(stream, counts));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
        for stream in open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
}

/// Answers every request head without a body, until either end closes.
fn converse(mut stream: TcpStream, counts: &Counts) {
    let answer = answer("200 OK", "{}");
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        head.extend_from_slice(&piece[..count]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            counts.requests.fetch_add(1, Ordering::Relaxed);
            thread::sleep(counts.pause);
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}
