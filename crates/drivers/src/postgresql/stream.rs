//! The bytes between a client and a server: in the clear or inside TLS, which is asked for before it begins, and
//! counted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use loadframe_engine::driver::{ErrorClass, Failure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::failure::failure;
use crate::net::deadline::Limit;
use crate::net::target_node::Host;
use crate::net::tls::{Tls, refusal};
use crate::net::wire::Wire;

/// SSLRequest: its length, and the number that it has instead of the protocol's version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The server's consent to it.
const WILLING: u8 = b'S';

/// Connects to the first of the host's addresses that answers, and shakes hands if that is wanted.
pub async fn connect(host: &Host, tls: Option<&Tls>, limit: Limit) -> Result<Wire, Failure> {
    match limit.within(open(host, tls)).await {
        Some(Ok(wire)) => Ok(wire),
        Some(Err(error)) => {
            let words = refusal(&error).unwrap_or_else(|| error.to_string());
            Err(failure(ErrorClass::Connect, format!("cannot connect: {words}")))
        }
        None => Err(failure(ErrorClass::Connect, format!("no connection within {} s", limit.timeout.as_secs_f64()))),
    }
}

async fn open(host: &Host, tls: Option<&Tls>) -> io::Result<Wire> {
    let mut last = io::Error::other("no address");
    for address in &host.addresses {
        let mut stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        stream.set_nodelay(true)?;
        let Some(tls) = tls else { return Ok(Wire::Plain(stream)) };
        stream.write_all(&SSL_REQUEST).await?;
        if stream.read_u8().await? != WILLING {
            return Err(io::Error::other("the server does not speak TLS"));
        }
        return Ok(Wire::Tls(Box::new(tls.handshake(&host.name, stream).await?)));
    }
    Err(last)
}

/// Bytes of the protocol in each direction since the connection was opened, those of TLS not among them.
#[derive(Debug, Default)]
pub struct Counts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Counts {
    /// How many were sent and received.
    pub fn now(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }
}

/// See the module.
pub struct Counted {
    wire: Wire,
    counts: Arc<Counts>,
}

impl Counted {
    /// Counts the bytes of that connection.
    pub fn new(wire: Wire, counts: Arc<Counts>) -> Self {
        Self { wire, counts }
    }
}

impl AsyncRead for Counted {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = space.filled().len();
        let read = Pin::new(&mut this.wire).poll_read(cx, space);
        this.counts.received.fetch_add((space.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Counted {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.wire).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = written {
            this.counts.sent.fetch_add(count as u64, Ordering::Relaxed);
        }
        written
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().wire).poll_shutdown(cx)
    }
}
