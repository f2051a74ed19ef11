//! The byte stream between a client and a node, unencrypted or inside TLS.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use loadframe_engine::driver::Overhead;
use loadframe_engine::recording::reconnects;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::deadline::Limit;
use super::marks::{Setup, Timestamped};
use super::stream::{self, Stream, connect, try_read};
use super::target_node::Host;
use super::tls::{Tls, refusal};
use super::trouble::Trouble;

/// Time after which another connection attempt starts in parallel.
const ATTEMPT_AFTER: Duration = Duration::from_millis(250);
/// Largest number of parallel connection attempts to one address.
const ATTEMPTS: usize = 4;

/// Connects by TCP to the first address of the host that accepts. Fails with the error of the last address. Sets no
/// time limit.
///
/// The kernel repeats a lost SYN only after 1 s, then after 2 s. Parallel attempts reach a host sooner once it answers
/// again after an outage.
pub async fn dial(host: &Host) -> io::Result<Stream> {
    let mut last = io::Error::other("no address");
    for address in &host.addresses {
        match attempt(|| connect(address)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the first result, also an error, of up to 4 parallel attempts. Each starts after the earlier ones have been
/// silent for 250 ms.
async fn attempt<T, F: Future<Output = io::Result<T>>>(connect: impl Fn() -> F) -> io::Result<T> {
    let mut attempts = FuturesUnordered::new();
    attempts.push(connect());
    while attempts.len() < ATTEMPTS {
        match Limit::starting_now(ATTEMPT_AFTER).within(attempts.next()).await {
            Some(Some(result)) => return result,
            Some(None) => break,
            None => attempts.push(connect()),
        }
    }
    attempts.next().await.unwrap_or_else(|| Err(io::Error::other("no attempt to connect")))
}

/// Returns the failure of a request that had `left` of its time to connect. With less than half of its time left, the
/// request had waited for its turn, which shows nothing about the host: it timed out. Otherwise the connection is
/// broken.
fn unconnected(limit: Limit, left: Duration) -> Trouble {
    let late = Trouble::late("no connection", limit);
    if left < limit.timeout / 2 { late } else { Trouble::broken(late.message) }
}

/// One connection.
pub enum Wire {
    /// Unencrypted.
    Plain(Stream),
    /// Inside TLS.
    Tls(Box<TlsStream<Stream>>),
}

impl Wire {
    /// Connects within `limit` to the first address of the host that accepts; performs the handshake if TLS is on.
    /// Fails with class Connect, or with Timeout if less than half of the limit was left at the call.
    pub async fn connect(host: &Host, tls: Option<&Tls>, limit: Limit) -> Result<Self, Trouble> {
        let left = limit.left();
        match limit.within(Self::open(host, tls)).await {
            Some(Ok(wire)) => Ok(wire),
            Some(Err(error)) => {
                let words = refusal(&error).unwrap_or_else(|| error.to_string());
                Err(Trouble::broken(format!("cannot connect: {words}")))
            }
            None => Err(unconnected(limit, left)),
        }
    }

    /// Opens a client's connection in `wire`, unless it is usable. Replaces a connection that the server closed, and
    /// counts the loss. Returns the setup of a new connection, to be finished after authentication; `None` if the old
    /// one is usable. Fails if the host is unreachable within `limit`.
    pub async fn open_for(
        wire: &mut Option<Self>,
        host: &Host,
        tls: Option<&Tls>,
        limit: Limit,
    ) -> Result<Option<Setup>, Trouble> {
        if wire.as_mut().is_some_and(Self::is_idle) {
            return Ok(None);
        }
        if wire.take().is_some() {
            reconnects::lost();
        }
        let setup = Setup::begin();
        *wire = Some(Self::connect(host, tls, limit).await?);
        reconnects::opened();
        Ok(Some(setup))
    }

    /// Returns why this client can never connect to the host by TLS, such as a certificate that does not verify. `None`
    /// if it can, or if the host cannot be reached within `timeout`.
    pub async fn refusal(host: &Host, tls: &Tls, timeout: Duration) -> Option<String> {
        match tokio::time::timeout(timeout, Self::open(host, Some(tls))).await {
            Ok(Err(error)) => refusal(&error),
            Ok(Ok(_)) | Err(_) => None,
        }
    }

    /// Connects to the first address of the host that accepts; performs the handshake if TLS is on. Sets no time limit.
    /// Fails with the error of the last address or of the handshake.
    async fn open(host: &Host, tls: Option<&Tls>) -> io::Result<Self> {
        let stream = dial(host).await?;
        Ok(match tls {
            None => Self::Plain(stream),
            Some(tls) => Self::Tls(Box::new(tls.handshake(&host.name, stream).await?)),
        })
    }

    /// Returns the TCP connection.
    fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns whether the connection is open, without a received close or unexpected bytes. Makes a system call only
    /// after the kernel has reported an event.
    pub fn is_idle(&mut self) -> bool {
        match self {
            Self::Plain(stream) => {
                matches!(try_read(stream, &mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            // Bytes may belong to TLS itself: reading also processes session tickets.
            Self::Tls(stream) => {
                let mut byte = [0];
                let read =
                    Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
                read.is_pending()
            }
        }
    }
}

impl Timestamped for Wire {
    /// Starts a request for [`Self::overhead`].
    #[inline]
    fn begin_request(&self) {
        stream::begin_request(self.stream());
    }

    /// Returns the generator's overhead in the last request. With TLS, it is measured at the encrypted records.
    #[inline]
    fn overhead(&self, sent: Instant, done: Instant) -> Overhead {
        stream::overhead(self.stream(), sent, done)
    }
}

impl AsyncRead for Wire {
    /// Reads available bytes, decrypted if TLS is on.
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, space),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, space),
        }
    }
}

impl AsyncWrite for Wire {
    /// Writes bytes, encrypted if TLS is on.
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Writes several pieces at once, encrypted if TLS is on.
    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    /// Sends buffered bytes. Ready once the kernel has all of them.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    /// Closes the sending direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use loadframe_engine::driver::ErrorClass;

    use super::*;

    #[tokio::test]
    async fn a_lost_first_packet_delays_a_connection_by_one_attempt() {
        let begun = Cell::new(0);
        let connected = attempt(|| {
            begun.set(begun.get() + 1);
            let lost = begun.get() == 1;
            async move { if lost { pending().await } else { Ok(7) } }
        });
        assert_eq!(connected.await.unwrap(), 7);
        assert_eq!(begun.get(), 2);
    }

    #[tokio::test]
    async fn a_refused_connection_is_not_attempted_again() {
        let begun = Cell::new(0);
        let refused = attempt(|| {
            begun.set(begun.get() + 1);
            async { Err::<(), _>(io::ErrorKind::ConnectionRefused.into()) }
        });
        assert_eq!(refused.await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(begun.get(), 1);
    }

    #[test]
    fn a_request_that_waited_before_it_connected_has_timed_out() {
        let limit = Limit::starting_now(Duration::from_secs(2));
        let classes = [1900, 100].map(|left| unconnected(limit, Duration::from_millis(left)).class);
        assert_eq!(classes, [ErrorClass::Connect, ErrorClass::Timeout]);
    }

    #[tokio::test]
    async fn attempts_to_a_silent_host_are_limited() {
        let begun = Cell::new(0);
        let silent = attempt(|| {
            begun.set(begun.get() + 1);
            pending::<io::Result<()>>()
        });
        assert!(tokio::time::timeout(10 * ATTEMPT_AFTER, silent).await.is_err());
        assert!((2..=ATTEMPTS).contains(&begun.get()), "{} attempts", begun.get());
    }
}
