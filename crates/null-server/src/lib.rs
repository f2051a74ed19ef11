//! A server that answers at once and stores nothing. A measurement against it shows the generator's own cost.
//!
//! It implements the parts of each protocol that the drivers use, over loopback, on one thread.

mod couchbase;
mod cql;
mod http;
mod mongodb;
mod postgresql;
mod redis;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, LocalSet};

/// Size of one read from a connection. Requests that must be complete may be longer.
const CHUNK: usize = 256 * 1024;

/// Maximum number of connections that wait for accept, as in real stores.
const BACKLOG: u32 = 4096;

/// Injected faults of the server, for tests of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// The server answers nothing. The kernel still accepts connections and bytes.
    paused: bool,
    /// The server refuses new connections and has closed the open ones, like a killed process.
    killed: bool,
    /// Number of link cuts. Connections from before the last cut stay open and silent.
    cuts: u64,
}

/// The server's side of a protocol on one connection.
trait Protocol {
    /// Processes as much of the start of `read` as possible and appends the answers to complete requests. Returns the
    /// number of processed bytes. An error ends the connection.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize>;
}

/// The server. Dropping it stops it. Faults begin and end shortly after the call, in the server's thread.
pub struct NullServer {
    address: SocketAddr,
    /// Reserves the port while the server does not listen.
    _port: TcpSocket,
    faults: watch::Sender<Faults>,
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts a server for that driver's protocol on a free loopback port, in its own thread. Fails with `Unsupported`
    /// for a driver whose protocol is not implemented, and if a port cannot be opened or a thread cannot start.
    pub fn start(driver: &str) -> io::Result<Self> {
        let serve: fn(SocketAddr) -> Box<dyn Protocol> = match driver {
            "http" | "search" => |_| Box::new(http::Http::default()),
            "mongodb" => |_| Box::new(mongodb::Mongo::default()),
            "postgresql" => |_| Box::new(postgresql::Postgres::default()),
            "redis" => |_| Box::new(redis::Redis),
            "couchbase" => |address| Box::new(couchbase::Couchbase::new(address)),
            "cql" => |address| Box::new(cql::Cql::new(address)),
            other => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, format!("no null server speaks to {other}")));
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let port = bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = port.local_addr()?;
        let listener = runtime.block_on(async { listen(address) })?;
        let end = Arc::new(Notify::new());
        let ended = end.clone();
        let (faults, seen) = watch::channel(Faults::default());
        let thread = std::thread::Builder::new().name("null-server".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = live(listener, address, seen, || serve(address)) => {}
                    () = ended.notified() => {}
                }
            });
        })?;
        Ok(Self { address, _port: port, faults, end, thread: Some(thread) })
    }

    /// Stops answering until `resume`, like a process stopped by a signal.
    pub fn pause(&self) {
        self.faults.send_modify(|faults| faults.paused = true);
    }

    /// Answers again after `pause` or `cut`, including the requests received meanwhile.
    pub fn resume(&self) {
        self.faults.send_modify(|faults| faults.paused = false);
    }

    /// Closes all connections and refuses new ones, until `restart`.
    pub fn kill(&self) {
        self.faults.send_modify(|faults| faults.killed = true);
    }

    /// Undoes `kill`: listens again at the same address. If that fails, the server's thread ends without an error.
    pub fn restart(&self) {
        self.faults.send_modify(|faults| faults.killed = false);
    }

    /// Cuts the link: the server loses all traffic, but leaves connections open. After `resume`, it serves only new
    /// connections; those from before the cut stay silent.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| (faults.cuts, faults.paused) = (faults.cuts + 1, true));
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    /// Stops the server and waits for its thread.
    fn drop(&mut self) {
        self.end.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds a socket to an IPv4 address, which other sockets of this process may share. Fails if it is in use.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Returns a listener at an IPv4 address; fails if it is in use. Needs a Tokio runtime.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address)?.listen(BACKLOG)
}

/// Accepts connections at `address`, again after each kill. `protocol` creates the state of a connection. Returns if
/// the server is dropped or cannot listen again. Needs a Tokio `LocalSet`.
async fn live(
    mut listener: TcpListener,
    address: SocketAddr,
    mut faults: watch::Receiver<Faults>,
    protocol: impl Fn() -> Box<dyn Protocol>,
) {
    loop {
        accept(listener, &mut faults, &protocol).await;
        if faults.wait_for(|faults| !faults.killed).await.is_err() {
            return;
        }
        let Ok(again) = listen(address) else { return };
        listener = again;
    }
}

/// Accepts and serves connections until the server is killed or dropped, or accepting fails; then closes them.
/// `protocol` creates the state of a connection.
async fn accept(listener: TcpListener, faults: &mut watch::Receiver<Faults>, protocol: impl Fn() -> Box<dyn Protocol>) {
    let mut connections = JoinSet::new();
    loop {
        let now = *faults.borrow_and_update();
        if now.killed {
            return;
        }
        tokio::select! {
            accepted = listener.accept(), if !now.paused => {
                let Ok((stream, _)) = accepted else { return };
                let _ = stream.set_nodelay(true);
                // An error of a connection, such as a disconnect or another protocol, ends only that connection.
                connections.spawn_local(serve(stream, faults.clone(), protocol()));
                while connections.try_join_next().is_some() {}
            }
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// Answers the requests of one connection until it closes. Waits while paused; never returns after a cut. Fails if the
/// connection breaks or its bytes violate the protocol.
async fn serve(
    stream: TcpStream,
    mut faults: watch::Receiver<Faults>,
    mut protocol: Box<dyn Protocol>,
) -> io::Result<()> {
    let (mut read, mut filled) = (vec![0; CHUNK], 0);
    let mut answers = Vec::new();
    let cuts = faults.borrow_and_update().cuts;
    loop {
        if faults.has_changed().unwrap_or(false) || faults.borrow().paused {
            let now = faults.wait_for(|faults| !faults.paused).await.map(|now| *now);
            if now.is_ok_and(|now| now.cuts > cuts) {
                return std::future::pending().await;
            }
        }
        if filled == read.len() {
            read.resize(2 * filled, 0);
        }
        tokio::select! {
            readable = stream.readable() => readable?,
            _ = faults.changed() => continue,
        }
        match stream.try_read(&mut read[filled..]) {
            Ok(0) => return Ok(()),
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        let taken = protocol.take(&read[..filled], &mut answers)?;
        read.copy_within(taken..filled, 0);
        filled -= taken;
        send(&stream, &answers).await?;
        answers.clear();
    }
}

/// Writes all answers to a connection; waits while it is full. Fails if it breaks.
async fn send(stream: &TcpStream, answers: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < answers.len() {
        match stream.try_write(&answers[sent..]) {
            Ok(written) => sent += written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a dropped server refuses connections.
    #[test]
    fn it_ends_with_its_owner() {
        let server = NullServer::start("http").unwrap();
        let address = server.address();
        let _open = std::net::TcpStream::connect(address).unwrap();
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
    }

    /// Checks that a killed server refuses connections, reserves its port, and accepts connections after a restart.
    #[test]
    fn a_killed_server_keeps_its_port() {
        let server = NullServer::start("http").unwrap();
        let connects = || std::net::TcpStream::connect(server.address()).is_ok();
        server.kill();
        while connects() {
            std::thread::yield_now();
        }
        let other = TcpSocket::new_v4().unwrap().bind(server.address());
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        server.restart();
        while !connects() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_driver_that_it_does_not_speak_to_is_refused() {
        assert_eq!(NullServer::start("telnet").err().unwrap().kind(), io::ErrorKind::Unsupported);
    }
}
