//! Timing of connections: how long setup took, and when a library-driven connection wrote the first byte of a request
//! and read the last byte of its answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use loadframe_engine::driver::Overhead;
use loadframe_engine::recording::reconnects;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::exchange::Exchanged;

/// No byte has passed in this direction since the request began.
const NEVER: u64 = u64::MAX;

/// Setup of a connection: from before TCP connects until the server has authenticated the client.
#[must_use = "a setup that is not finished is not recorded"]
#[derive(Debug)]
pub struct Setup(Instant);

impl Setup {
    /// Starts the setup.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Records the setup of a usable connection. Drop it instead if the setup failed.
    pub fn finish(self) {
        reconnects::set_up(self.0.elapsed());
    }
}

/// Observations of a connection. Byte counts exclude the overhead of TLS.
#[derive(Debug)]
pub struct Marks {
    opened: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    /// Time of the request's first written byte, in nanoseconds since the connection opened.
    first: AtomicU64,
    /// Time of the last byte read, in nanoseconds since the connection opened.
    last: AtomicU64,
    /// Parts of the generator's overhead at the last byte read; see [`Overhead::parts`].
    overhead: [AtomicU64; 2],
}

/// A started request, with the byte counts before it.
#[derive(Clone, Copy, Debug)]
pub struct RequestStart {
    sent: u64,
    received: u64,
}

impl Default for Marks {
    /// Creates the marks of a connection that opens now, without bytes.
    fn default() -> Self {
        let [sent, received] = [0, 0].map(AtomicU64::new);
        let [first, last] = [NEVER, NEVER].map(AtomicU64::new);
        let overhead = [NEVER, NEVER].map(AtomicU64::new);
        Self { opened: Instant::now(), sent, received, first, last, overhead }
    }
}

impl Marks {
    /// Returns the bytes sent and received since the connection was opened.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Starts a request: forgets the times of the last one.
    pub fn begin(&self) -> RequestStart {
        self.first.store(NEVER, Ordering::Relaxed);
        self.last.store(NEVER, Ordering::Relaxed);
        self.overhead.iter().for_each(|part| part.store(NEVER, Ordering::Relaxed));
        let (sent, received) = self.bytes();
        RequestStart { sent, received }
    }

    /// Ends a request and returns its times and bytes. With `answered`, the last byte read is the end of its answer;
    /// otherwise, or if no byte was read, the request ends now. It starts now if no byte was written.
    pub fn end(&self, begun: RequestStart, answered: bool) -> Exchanged {
        let known = |mark: &AtomicU64| Some(mark.load(Ordering::Relaxed)).filter(|mark| *mark != NEVER);
        let (first, last) = match (known(&self.first), known(&self.last).filter(|_| answered)) {
            (Some(first), Some(last)) => (first, last),
            (first, last) => {
                let now = self.now();
                (first.unwrap_or(now), last.unwrap_or(now))
            }
        };
        let [send, receive] = [0, 1].map(|part| self.overhead[part].load(Ordering::Relaxed));
        Exchanged {
            sent: self.instant(first),
            done: self.instant(last.max(first)),
            overhead: if answered { Overhead::from_parts((send, receive)) } else { Overhead::default() },
            bytes_sent: self.sent.load(Ordering::Relaxed) - begun.sent,
            bytes_received: self.received.load(Ordering::Relaxed) - begun.received,
        }
    }

    /// Stores the generator's overhead in the request so far; to be called right after a read. Does nothing before the
    /// request's first write.
    fn stamp(&self, wire: &impl Timestamped) {
        let [first, last] = [&self.first, &self.last].map(|mark| mark.load(Ordering::Relaxed));
        if first != NEVER {
            let (send, receive) = wire.overhead(self.instant(first), self.instant(last)).parts();
            self.overhead[0].store(send, Ordering::Relaxed);
            self.overhead[1].store(receive, Ordering::Relaxed);
        }
    }

    /// Converts a mark, in nanoseconds since the connection opened.
    fn instant(&self, mark: u64) -> Instant {
        self.opened + Duration::from_nanos(mark)
    }

    /// Returns the time since the connection opened, in nanoseconds.
    fn now(&self) -> u64 {
        self.opened.elapsed().as_nanos() as u64
    }
}

/// A connection that may have the kernel's timestamps; by default it has none.
pub trait Timestamped {
    /// Starts a request, before its first byte is written.
    fn begin_request(&self) {}

    /// Returns the generator's overhead in a request from `sent` to `done`; unknown without timestamps.
    /// `sent`: right before its first byte was written. `done`: right after the last byte was read.
    fn overhead(&self, _sent: Instant, _done: Instant) -> Overhead {
        Overhead::default()
    }
}

/// A connection that records its bytes in [`Marks`].
pub struct Marked<W> {
    wire: W,
    marks: Arc<Marks>,
}

impl<W> Marked<W> {
    /// Wraps a connection, so that `marks` records its bytes and times.
    pub fn new(wire: W, marks: Arc<Marks>) -> Self {
        Self { wire, marks }
    }
}

impl<W: AsyncRead + Timestamped + Unpin> AsyncRead for Marked<W> {
    /// Reads, and records the number of bytes and the time.
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = space.filled().len();
        let read = Pin::new(&mut this.wire).poll_read(cx, space);
        let count = space.filled().len() - before;
        if count > 0 {
            this.marks.received.fetch_add(count as u64, Ordering::Relaxed);
            this.marks.last.store(this.marks.now(), Ordering::Relaxed);
            this.marks.stamp(&this.wire);
        }
        read
    }
}

impl<W: AsyncWrite + Timestamped + Unpin> AsyncWrite for Marked<W> {
    /// Writes, and records the number of bytes and the time of the request's first write.
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.marks.first.load(Ordering::Relaxed) == NEVER {
            this.wire.begin_request();
            this.marks.first.store(this.marks.now(), Ordering::Relaxed);
        }
        let written = Pin::new(&mut this.wire).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            this.marks.sent.fetch_add(count as u64, Ordering::Relaxed);
        }
        written
    }

    /// Sends buffered bytes. Ready once the kernel has all of them.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(cx)
    }

    /// Closes the sending direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    impl Timestamped for TcpStream {}

    /// Returns the source files below a folder that read the clock outside tests. Adds the number of files to `seen`.
    fn clock_readers(folder: &Path, seen: &mut usize) -> Vec<PathBuf> {
        let mut readers = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                readers.extend(clock_readers(&path, seen));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *seen += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                // The arrival time of a sample event, which is never sent.
                let code = code.replace("arrived: Instant::now()", "");
                if code.contains("Instant::now") || code.contains(".elapsed()") {
                    readers.push(path);
                }
            }
        }
        readers
    }

    #[test]
    fn no_driver_stamps_its_requests_itself() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut seen = 0;
        let readers = clock_readers(&folder, &mut seen);
        let (shared, others): (Vec<_>, Vec<_>) = readers.iter().partition(|path| path.starts_with(folder.join("net")));
        assert!(seen > 50 && shared.contains(&&folder.join("net/marks.rs")), "{seen} files");
        assert!(others.is_empty(), "take the instants from net::exchange::Exchanged: {others:?}");
    }

    #[tokio::test]
    async fn a_request_lasts_from_its_first_written_byte_to_the_last_that_was_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let marks = Arc::new(Marks::default());
        let mut marked = Marked::new(stream, marks.clone());
        for _ in 0..2 {
            let begun = marks.begin();
            // Work of a library before it writes, such as encoding.
            let encoded = Instant::now();
            marked.write_all(b"ask").await.unwrap();
            let mut question = [0; 3];
            server.read_exact(&mut question).await.unwrap();
            let asked = Instant::now();
            server.write_all(b"answer").await.unwrap();
            let mut answer = [0; 6];
            marked.read_exact(&mut answer).await.unwrap();
            // Work of a library after it has read, such as decoding.
            let read = Instant::now();
            let exchanged = marks.end(begun, true);
            assert!(encoded <= exchanged.sent && exchanged.sent <= asked);
            assert!(asked <= exchanged.done && exchanged.done <= read);
            assert_eq!((exchanged.bytes_sent, exchanged.bytes_received), (3, 6));
            assert!(marks.end(begun, false).done >= read, "a request that was given up lasts until then");
        }
    }
}
