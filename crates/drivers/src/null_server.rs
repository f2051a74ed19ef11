//! A server that answers at once and keeps nothing: what is left of a measurement against it is the generator's cost.
//!
//! It speaks as much of each protocol as the drivers do, over loopback, from one thread.

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

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

/// What a connection reads at once. Requests that have to be whole to be answered may be longer.
const CHUNK: usize = 256 * 1024;

/// One connection's side of a protocol.
trait Protocol {
    /// Takes as much from the start of `read` as can be done with, and adds the answers to the requests that are whole;
    /// returns how many bytes were taken. An error ends the connection.
    fn take(&mut self, read: &[u8], answers: &mut Vec<u8>) -> io::Result<usize>;
}

/// The server; it ends when this is dropped.
pub struct NullServer {
    address: SocketAddr,
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts a server of that driver's protocol on a free port of loopback, in a thread of its own. `Unsupported` for
    /// a driver whose protocol it does not speak.
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
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let end = Arc::new(Notify::new());
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("null-server".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = accept(listener, || serve(address)) => {}
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

async fn accept(listener: std::net::TcpListener, protocol: impl Fn() -> Box<dyn Protocol>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        // A client that goes, or talks something else, is let go.
        connections.spawn_local(serve(stream, protocol()));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, mut protocol: Box<dyn Protocol>) -> io::Result<()> {
    let (mut read, mut filled) = (vec![0; CHUNK], 0);
    let mut answers = Vec::new();
    loop {
        if filled == read.len() {
            read.resize(2 * filled, 0);
        }
        stream.readable().await?;
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

    #[test]
    fn it_ends_with_its_owner() {
        let server = NullServer::start("http").unwrap();
        let address = server.address();
        let _open = std::net::TcpStream::connect(address).unwrap();
        drop(server);
        assert!(std::net::TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_driver_that_it_does_not_speak_to_is_refused() {
        assert_eq!(NullServer::start("telnet").err().unwrap().kind(), io::ErrorKind::Unsupported);
    }
}
