//! A TCP connection of the thread's reactor, or of Tokio on a thread without one.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use loadframe_engine::driver::Overhead;
use loadframe_engine::reactor;
use tokio_util::either::Either;

/// A connection: of the thread's reactor (left), or of a Tokio runtime (right).
pub type Stream = Either<reactor::TcpStream, tokio::net::TcpStream>;

/// Connects to `address` and disables Nagle's algorithm. Sets no time limit. Fails if the address does not accept.
pub async fn connect(address: &SocketAddr) -> io::Result<Stream> {
    if reactor::is_running() {
        let stream = reactor::TcpStream::connect(address).await?;
        stream.set_nodelay(true).map(|()| Either::Left(stream))
    } else {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true).map(|()| Either::Right(stream))
    }
}

/// Starts a request for [`overhead`], before its first byte is written.
#[inline]
pub fn begin_request(stream: &Stream) {
    if let Either::Left(stream) = stream {
        stream.begin_request();
    }
}

/// Returns the generator's overhead in a request from `sent` to `done`; unknown while the kernel's timestamps are off.
/// `sent`: right before its first byte was written. `done`: right after the last byte of its answer was read.
#[inline]
pub fn overhead(stream: &Stream, sent: Instant, done: Instant) -> Overhead {
    match stream {
        Either::Left(stream) => stream.overhead(sent, done),
        Either::Right(_) => Overhead::default(),
    }
}

/// Reads available bytes into `space` without blocking and returns their number, 0 at the end of the stream. Fails with
/// `WouldBlock` if there are none. Makes a system call only after the kernel has reported an event.
pub fn try_read(stream: &Stream, space: &mut [u8]) -> io::Result<usize> {
    match stream {
        Either::Left(stream) => stream.try_read(space),
        Either::Right(stream) => stream.try_read(space),
    }
}
