//! The bytes between a client and a node, without encryption or inside TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loadframe_engine::recording::reconnects;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::deadline::Limit;
use super::marks::Setup;
use super::target_node::Host;
use super::tls::{Tls, refusal};
use super::trouble::Trouble;

/// One connection.
pub enum Wire {
    /// Without encryption.
    Plain(TcpStream),
    /// Inside TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Connects to the first of the host's addresses that answers; performs the handshake if there is TLS.
    pub async fn connect(host: &Host, tls: Option<&Tls>, limit: Limit) -> Result<Self, Trouble> {
        match limit.within(Self::open(host, tls)).await {
            Some(Ok(wire)) => Ok(wire),
            Some(Err(error)) => {
                let words = refusal(&error).unwrap_or_else(|| error.to_string());
                Err(Trouble::broken(format!("cannot connect: {words}")))
            }
            None => Err(Trouble::broken(format!("no connection within {} s", limit.timeout.as_secs_f64()))),
        }
    }

    /// Opens the connection of a client, unless `wire` is usable. A connection that the server has closed is replaced.
    /// Returns the setup of a new connection, to be finished once the client is authenticated.
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

    /// Returns why the host and this client can never connect by TLS; `None` if they can, or if the host does not
    /// answer.
    pub async fn refusal(host: &Host, tls: &Tls, timeout: Duration) -> Option<String> {
        match tokio::time::timeout(timeout, Self::open(host, Some(tls))).await {
            Ok(Err(error)) => refusal(&error),
            Ok(Ok(_)) | Err(_) => None,
        }
    }

    async fn open(host: &Host, tls: Option<&Tls>) -> io::Result<Self> {
        let mut last = io::Error::other("no address");
        for address in &host.addresses {
            match TcpStream::connect(address).await.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
                Ok(stream) => {
                    return Ok(match tls {
                        None => Self::Plain(stream),
                        Some(tls) => Self::Tls(Box::new(tls.handshake(&host.name, stream).await?)),
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Whether, as far as this side knows, the peer has neither closed the connection nor sent unexpected bytes. Makes
    /// no system call unless the kernel has reported an event.
    pub fn is_idle(&mut self) -> bool {
        match self {
            Self::Plain(stream) => {
                matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
            }
            // Not every byte belongs to an answer here: reading also processes session tickets.
            Self::Tls(stream) => {
                let mut byte = [0];
                let read =
                    Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
                read.is_pending()
            }
        }
    }
}

impl AsyncRead for Wire {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, space),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, space),
        }
    }
}

impl AsyncWrite for Wire {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

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

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
