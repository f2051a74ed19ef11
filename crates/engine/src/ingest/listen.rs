//! Lines received over TCP. The reader threads share the connections.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use super::Source;
use super::acks::Acks;
use super::ahead::{Ahead, Search};
use super::line_reader::{From, LineReader, READING};
use crate::plan::{Listen, PlanError};

/// Poll interval of the idle check.
const LOOK: Duration = Duration::from_millis(50);

/// After the end of the phase, senders receive acknowledgements for this long.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Delay after a failed accept, for example when file descriptors are exhausted.
const PAUSE: Duration = Duration::from_millis(100);

/// Poll interval while waiting for the first line.
const FIRST: Duration = Duration::from_millis(5);

/// A connection, and what was read from it before the phase.
#[derive(Debug)]
struct Connection {
    stream: std::net::TcpStream,
    /// Its TLS session, if the handshake began before the phase.
    session: Option<Box<ServerConnection>>,
    /// The bytes read before the phase, decrypted.
    ahead: Ahead,
}

/// A listener, and the connections accepted so far.
type Opened = (TcpListener, Vec<Connection>);

/// Ports opened before their phase, by the address in the plan.
static HELD: Mutex<BTreeMap<String, Opened>> = Mutex::new(BTreeMap::new());

/// Opens a port and blocks until a connection has an event. The next phase with that address takes over the port and
/// its connections, with the bytes read from them. A connection whose TLS handshake fails is closed. Fails if the port
/// cannot be opened, or without an event within `patience` or in the bytes that the source's buffer holds.
pub fn hold(search: &Search, listen: &Listen, patience: Duration) -> Result<(), PlanError> {
    let mut port = Port::open(listen, 0)?;
    let end = Instant::now() + patience;
    let (mut has_event, mut failure) = (false, None);
    loop {
        port.accept_early();
        let tls = port.tls.as_ref();
        port.early.retain_mut(|early| match early.has_event(search, tls) {
            Ok(event) => {
                has_event |= event;
                true
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        });
        if has_event {
            break;
        }
        search.check(port.early.iter().map(|early| early.ahead.bytes.len()).sum(), &port.address.to_string())?;
        if Instant::now() >= end {
            return Err(port.no_event(patience, failure));
        }
        std::thread::sleep(FIRST);
    }
    if let Some(listener) = port.listener.take() {
        held().insert(listen.address.clone(), (listener, port.early));
    }
    Ok(())
}

/// Closes a port that `hold` opened, unless a phase has taken it over.
pub fn release(listen: &Listen) {
    held().remove(&listen.address);
}

impl Connection {
    /// Returns whether the connection has lines, or may still get some: it was not closed without a line.
    fn may_send(&self) -> bool {
        !self.ahead.bytes.is_empty() || !matches!(self.stream.peek(&mut [0]), Ok(0))
    }

    /// Returns whether bytes have arrived.
    fn has_bytes(&self) -> bool {
        !self.ahead.bytes.is_empty() || self.stream.peek(&mut [0]).is_ok()
    }

    /// Reads up to 64 KiB, and returns whether an event has arrived. `tls`: the connection is encrypted. Fails if its
    /// TLS handshake or decryption fails.
    fn has_event(&mut self, search: &Search, tls: Option<&TlsAcceptor>) -> io::Result<bool> {
        let Self { stream, session, ahead } = self;
        let count = match tls {
            None => ahead.fill(|buffer| stream.read(buffer)),
            Some(tls) => {
                if session.is_none() {
                    let opened = ServerConnection::new(tls.config().clone()).map_err(io::Error::other)?;
                    *session = Some(Box::new(opened));
                }
                let session = session.as_mut().expect("it was opened above");
                ahead.fill(|buffer| decrypt(session, stream, buffer))
            }
        };
        match count {
            // At the end of the connection, its last line is complete if it is an object.
            Ok(count) => Ok(ahead.has_event(search, count == 0 && !search.reads_text())),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(error),
            Err(_) => Ok(false),
        }
    }
}

/// Reads decrypted bytes, after the rest of the TLS handshake; returns 0 at the end of the connection. Fails with
/// `InvalidData` if the handshake or the decryption fails, and with `WouldBlock` while no bytes have arrived.
fn decrypt(session: &mut ServerConnection, stream: &mut std::net::TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        while session.wants_write() {
            match session.write_tls(stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                written => written.map(drop)?,
            }
        }
        match session.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The sender left without closing the TLS session.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        session.read_tls(stream)?;
        session.process_new_packets().map_err(|error| {
            // The sender learns the reason.
            let _ = session.write_tls(stream);
            io::Error::new(ErrorKind::InvalidData, error)
        })?;
    }
}

/// Returns the ports held open, locked.
fn held() -> MutexGuard<'static, BTreeMap<String, Opened>> {
    HELD.lock().expect("no thread panics while it holds the lock")
}

/// An open port, until the reader threads take their parts.
pub struct Port {
    /// The bound address.
    pub address: SocketAddr,
    listener: Option<TcpListener>,
    /// Connections accepted while waiting for the first line.
    early: Vec<Connection>,
    tls: Option<TlsAcceptor>,
    senders: Vec<UnboundedSender<Accepted>>,
    receivers: Vec<Option<UnboundedReceiver<Accepted>>>,
    limit: Arc<Semaphore>,
}

/// A connection and its permit under the connection limit.
type Accepted = (Connection, OwnedSemaphorePermit);

/// One reader thread's part of a port. The first thread accepts connections and distributes them.
pub struct PortReader {
    accepts: Option<(TcpListener, Vec<UnboundedSender<Accepted>>)>,
    connections: UnboundedReceiver<Accepted>,
    limit: Arc<Semaphore>,
    tls: Option<TlsAcceptor>,
}

impl fmt::Debug for Port {
    /// Shows only the address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Refuses a TLS certificate or key that cannot be used, and one of them without the other.
pub fn check(listen: &Listen) -> Result<(), PlanError> {
    tls(listen).map(drop)
}

/// Returns the TLS settings of a port, from its certificate and key; `None` without them. Refuses unusable files, and
/// one of the two without the other.
fn tls(listen: &Listen) -> Result<Option<TlsAcceptor>, PlanError> {
    let (certificate, key) = match (&listen.certificate, &listen.key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => return Err(PlanError::new("TLS needs a certificate and its key: give both")),
    };
    let wrong = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        PlanError::new(format!("{}: it cannot be used for TLS: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| wrong(certificate, &error))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

impl Port {
    /// Opens the port for `threads` reader threads, or takes it over if it is held open; accepts nothing yet. Refuses an
    /// address that cannot be used, and unusable TLS files.
    pub fn open(listen: &Listen, threads: usize) -> Result<Self, PlanError> {
        let tls = tls(listen)?;
        let cannot = |error: std::io::Error| {
            let cause = "give another address, or end the process that uses it";
            PlanError::new(format!("cannot listen on {}: {error}: {cause}", listen.address))
        };
        let open = held().remove(&listen.address);
        let (listener, early) = match open {
            Some(open) => open,
            None => (TcpListener::bind(&listen.address).map_err(cannot)?, Vec::new()),
        };
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (senders, receivers) = (0..threads).map(|_| unbounded_channel()).unzip();
        let receivers: Vec<UnboundedReceiver<_>> = receivers;
        Ok(Self {
            address,
            listener: Some(listener),
            early,
            tls,
            senders,
            receivers: receivers.into_iter().map(Some).collect(),
            limit: Arc::new(Semaphore::new(listen.connections.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// Accepts connections and blocks until the first bytes arrive on one of them, without reading the bytes.
    /// Drops connections that are closed by then, and those above the limit. Fails if no bytes arrive within
    /// `patience`.
    pub fn await_first(&mut self, patience: Duration) -> Result<(), PlanError> {
        let end = Instant::now() + patience;
        loop {
            self.accept_early();
            self.early.retain(Connection::may_send);
            if self.early.iter().any(Connection::has_bytes) {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(self.no_line(patience));
            }
            std::thread::sleep(FIRST);
        }
    }

    /// Accepts the connections that wait; closes those above the limit.
    fn accept_early(&mut self) {
        // Closed connections must not count.
        self.early.retain(Connection::may_send);
        // An accept error concerns one connection; later ones may succeed.
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            if stream.set_nonblocking(true).is_ok() && self.early.len() < self.limit.available_permits() {
                self.early.push(Connection { stream, session: None, ahead: Ahead::default() });
            }
        }
    }

    /// Returns the error for a port at which no line arrived within `patience`.
    fn no_line(&self, patience: Duration) -> PlanError {
        let (address, seconds) = (self.address, patience.as_secs_f64());
        let cause = "send lines to it, for example with nc, or increase wait";
        PlanError::new(format!("no line arrived at {address} within {seconds} s: {cause}"))
    }

    /// Returns the error for a port at which no event arrived within `patience`. `failure`: of the last TLS handshake
    /// that failed.
    fn no_event(&self, patience: Duration, failure: Option<io::Error>) -> PlanError {
        let cause = match failure {
            Some(error) => format!("the TLS handshake with a sender failed: {error}"),
            None if self.early.is_empty() => return self.no_line(patience),
            None => "senders connected, but none of their first lines is an event".to_owned(),
        };
        let (address, seconds) = (self.address, patience.as_secs_f64());
        PlanError::new(format!("no event arrived at {address} within {seconds} s: {cause}"))
    }

    /// Distributes the connections accepted so far to the reader threads; returns their number.
    pub fn share_early(&mut self) -> u64 {
        let early = std::mem::take(&mut self.early);
        let count = early.len() as u64;
        for (connection, sender) in early.into_iter().zip(self.senders.iter().cycle()) {
            if let Ok(permit) = self.limit.clone().try_acquire_owned() {
                let _ = sender.send((connection, permit));
            }
        }
        count
    }

    /// Returns the part of reader thread `number`, from 0. The first call also gets the task of accepting. Panics at a
    /// second call with the same number.
    pub fn part(&mut self, number: usize) -> PortReader {
        let accepts = self.listener.take().map(|listener| (listener, std::mem::take(&mut self.senders)));
        let connections = self.receivers[number].take().expect("each thread takes its part once");
        PortReader { accepts, connections, limit: self.limit.clone(), tls: self.tls.clone() }
    }
}

/// Queues the lines of a thread's connections, until the queue closes or no line arrives for the plan's idle time.
/// Blocks. Then sends the remaining acknowledgements, until the phase is over. Fails if the runtime cannot start.
pub fn read(source: &Arc<Source>, part: PortReader) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    let PortReader { accepts, mut connections, limit, tls } = part;
    LocalSet::new().block_on(&runtime, async {
        let mut served = JoinSet::new();
        let first = accepts.is_some();
        if let Some((listener, senders)) = accepts {
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener.map_err(|error| format!("cannot listen: {error}"))?;
            served.spawn_local(accept(source.clone(), listener, senders, limit));
        }
        let idle = async {
            match source.plan.idle.filter(|_| first) {
                Some(idle) => until_idle(source, idle).await,
                None => std::future::pending().await,
            }
        };
        let mut idle = std::pin::pin!(idle);
        loop {
            tokio::select! {
                () = source.queue.closed() => break,
                () = &mut idle => {
                    source.queue.close_by_itself();
                    break;
                }
                Some((connection, permit)) = connections.recv() => {
                    let (source, tls) = (source.clone(), tls.clone());
                    served.spawn_local(async move {
                        serve(source, connection, tls).await;
                        drop(permit);
                    });
                }
                // Joining finished tasks frees their memory.
                Some(_) = served.join_next() => {}
            }
        }
        // Continue to acknowledge lines until all connections end or the phase is over.
        tokio::select! {
            () = async { while served.join_next().await.is_some() {} } => {}
            () = async {
                source.queue.finished().await;
                if source.plan.acknowledge {
                    tokio::time::sleep(LAST_WORDS).await;
                }
            } => {}
        }
        Ok(())
    })
}

/// Accepts connections and distributes them to the reader threads, until the queue closes. Closes connections above
/// the limit at once, with a warning.
async fn accept(
    source: Arc<Source>,
    listener: tokio::net::TcpListener,
    senders: Vec<UnboundedSender<Accepted>>,
    limit: Arc<Semaphore>,
) {
    for sender in senders.iter().cycle() {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted.and_then(|(stream, _)| stream.into_std()),
            () = source.queue.closed() => return,
        };
        match accepted {
            Ok(stream) => match limit.clone().try_acquire_owned() {
                Ok(permit) => {
                    source.counts.connections.fetch_add(1, Ordering::Relaxed);
                    let _ = sender.send((Connection { stream, session: None, ahead: Ahead::default() }, permit));
                }
                Err(_) => {
                    let most = source.plan.listen.as_ref().map_or(0, |listen| listen.connections);
                    source.say(format!(
                        "{most} connections are open, and no more may be: others were closed at once; let senders share \
                         connections, or raise \"connections\" of the source's port"
                    ));
                }
            },
            Err(error) => {
                source.say(format!("a connection could not be accepted: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Waits until no line has arrived for `idle` although the queue had room.
async fn until_idle(source: &Source, idle: Duration) {
    let (mut lines, mut last) = (0, Instant::now());
    loop {
        tokio::time::sleep(LOOK.min(idle)).await;
        let now = source.counts.lines.load(Ordering::Relaxed);
        if now != lines || source.queue.is_full() {
            (lines, last) = (now, Instant::now());
        } else if last.elapsed() >= idle {
            return;
        }
    }
}

/// Reads one connection to its end, after the rest of the TLS handshake if `tls` is given.
/// A handshake that fails, or takes longer than the plan's limit, ends the connection with a warning.
async fn serve(source: Arc<Source>, connection: Connection, tls: Option<TlsAcceptor>) {
    let Connection { stream, session, ahead } = connection;
    let from = stream.peer_addr().map_or_else(|_| "a sender".to_owned(), |address| address.to_string());
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    match tls {
        None => lines(&source, stream, from, &ahead.bytes).await,
        Some(tls) => {
            let patience = source.plan.listen.as_ref().map_or(Duration::ZERO, |listen| listen.handshake);
            let go_on = |new: &mut ServerConnection| {
                if let Some(session) = session {
                    *new = *session;
                }
            };
            let accepted = tokio::select! {
                accepted = tls.accept_with(stream, go_on) => accepted,
                () = source.queue.closed() => return,
                () = tokio::time::sleep(patience) => {
                    return source.say(format!(
                        "a sender did not finish its TLS handshake within {} s, and was cut off",
                        patience.as_secs_f64()
                    ));
                }
            };
            match accepted {
                Ok(stream) => lines(&source, stream, from, &ahead.bytes).await,
                Err(error) => source.say(format!("TLS handshake with a sender failed: {error}")),
            }
        }
    }
}

/// Queues the lines of a connection until its end or the queue's close, and acknowledges them if the plan says so.
/// `from`: the sender's address. `ahead`: the first bytes, which were read before.
async fn lines(source: &Source, stream: impl AsyncRead + AsyncWrite, from: String, ahead: &[u8]) {
    let (mut reading, writing) = split(stream);
    let mut line_reader = LineReader::new(source, From::Sender(from));
    let acks = source.plan.acknowledge.then(|| Rc::new(RefCell::new(Acks::default())));
    line_reader.acks.clone_from(&acks);
    let read = async {
        for bytes in ahead.chunks(READING) {
            if !source.queue.room().await {
                break;
            }
            line_reader.buffer().extend_from_slice(bytes);
            line_reader.arrived(bytes.len());
        }
        while source.queue.room().await {
            let count = tokio::select! {
                count = reading.read_buf(line_reader.buffer()) => count,
                () = source.queue.closed() => break,
            };
            match count {
                Ok(count) if count > 0 => line_reader.arrived(count),
                // A failed TLS close counts as a disconnect.
                Ok(_) | Err(_) => break,
            }
        }
        line_reader.end(false);
        if let Some(acks) = &acks {
            acks.borrow_mut().end();
        }
    };
    match &acks {
        None => read.await,
        Some(acks) => drop(tokio::join!(read, acknowledge(acks, writing))),
    }
}

/// Sends the line `{"acknowledged": N}` with the number of acknowledged lines whenever it grows. Returns when all are
/// acknowledged, after closing the connection for writing, or when the sender cannot be reached.
async fn acknowledge(acks: &RefCell<Acks>, mut writing: impl AsyncWrite + Unpin) {
    let waker = acks.borrow().waker.clone();
    let mut stats = 0;
    loop {
        waker.notified().await;
        let (lines, all) = {
            let mut acks = acks.borrow_mut();
            (acks.lines(), acks.is_all())
        };
        if lines > stats {
            stats = lines;
            if writing.write_all(format!("{{\"acknowledged\": {lines}}}\n").as_bytes()).await.is_err() {
                return;
            }
            let _ = writing.flush().await;
        }
        if all {
            let _ = writing.shutdown().await;
            return;
        }
    }
}
