//! A TCP connection of the thread's reactor, or of Tokio on a thread without one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use loadframe_engine::reactor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection.
pub enum Stream {
    /// A connection of the thread's reactor.
    Reactor(reactor::TcpStream),
    /// A connection of a Tokio runtime.
    Tokio(tokio::net::TcpStream),
}

impl Stream {
    /// Connects to `address`; small writes are sent at once.
    pub async fn connect(address: &SocketAddr) -> io::Result<Self> {
        if reactor::is_running() {
            let stream = reactor::TcpStream::connect(address).await?;
            stream.set_nodelay(true).map(|()| Self::Reactor(stream))
        } else {
            let stream = tokio::net::TcpStream::connect(address).await?;
            stream.set_nodelay(true).map(|()| Self::Tokio(stream))
        }
    }

    /// Reads available bytes; `WouldBlock` if none are. Makes a system call only after the kernel has reported an
    /// event.
    pub fn try_read(&self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Reactor(stream) => stream.try_read(space),
            Self::Tokio(stream) => stream.try_read(space),
        }
    }
}

impl AsyncRead for Stream {
    /// Reads available bytes.
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Reactor(stream) => Pin::new(stream).poll_read(cx, space),
            Self::Tokio(stream) => Pin::new(stream).poll_read(cx, space),
        }
    }
}

impl AsyncWrite for Stream {
    /// Writes bytes.
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Reactor(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tokio(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Writes several pieces at once.
    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Reactor(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Tokio(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    /// Returns true.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: no bytes are buffered.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending direction.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Reactor(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tokio(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
