//! TCP connections of a reactor.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::on_thread::OnThread;
use super::overhead::Overhead;
use super::timestamps::{self, Timestamps};
use super::{Reactor, poll_budget, with_current};

/// The reported state of a socket, and the tasks that wait for it.
#[derive(Default)]
pub(super) struct Readiness {
    /// Whether a read may succeed.
    readable: Cell<bool>,
    /// Whether a write may succeed.
    writable: Cell<bool>,
    /// Whether the peer has closed its direction or the connection is broken: the socket stays readable.
    closed: Cell<bool>,
    /// Whether the kernel reports timestamps in the error queue. They raise the error flag, too.
    timestamps: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

impl Readiness {
    /// Stores the state that the kernel's event flags report, and wakes the tasks that wait to read or to write.
    pub fn report(&self, flags: EventFlags) {
        // The kernel reports a broken TCP connection by both flags.
        let broken = flags.intersects(EventFlags::HUP) || (flags.intersects(EventFlags::ERR) && !self.timestamps.get());
        if broken || flags.intersects(EventFlags::RDHUP) {
            self.closed.set(true);
        }
        if self.closed.get() || flags.intersects(EventFlags::IN) {
            self.readable.set(true);
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        if broken || flags.intersects(EventFlags::OUT) {
            self.writable.set(true);
            self.writer.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// A connection of the reactor on this thread. On any other thread its methods panic.
pub struct TcpStream {
    readiness: OnThread<Rc<Readiness>>,
    pub(super) token: u64,
    socket: std::net::TcpStream,
    /// The kernel's timestamps, if they are on.
    timestamps: Option<Box<OnThread<Timestamps>>>,
}

impl TcpStream {
    /// Connects to `address`, without a time limit. Turns on the kernel's timestamps if the reactor says so and the
    /// kernel supports them. Fails if the connection is refused, or without a reactor on this thread.
    pub async fn connect(address: &SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let fd = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
        match connect(&fd, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        // An unconnected socket would be reported as closed, so it is registered only now.
        let mut stream = Self::register(fd.into())?;
        poll_fn(|cx| stream.poll_writable(cx)).await;
        if let Some(error) = stream.socket.take_error()? {
            return Err(error);
        }
        let wanted = with_current(|reactor| reactor.timestamps.get()).unwrap_or_default();
        if wanted && timestamps::turn_on(stream.socket.as_fd()).is_ok() {
            stream.readiness.get().timestamps.set(true);
            stream.timestamps = Some(Box::new(OnThread::new(Timestamps::default())));
        }
        Ok(stream)
    }

    /// Registers a socket with the reactor of this thread; fails without one.
    fn register(socket: std::net::TcpStream) -> io::Result<Self> {
        let (token, readiness) = with_current(|reactor| reactor.register(socket.as_fd()))
            .ok_or_else(|| io::Error::other("connected outside a reactor"))??;
        Ok(Self { readiness: OnThread::new(readiness), token, socket, timestamps: None })
    }

    /// Sets whether small writes are sent at once (`TCP_NODELAY`).
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.socket.set_nodelay(on)
    }

    /// Forgets the timestamps of the previous request, before the first byte of the next one is written. Does nothing
    /// without timestamps.
    #[inline]
    pub fn begin_request(&self) {
        if let Some(timestamps) = &self.timestamps {
            timestamps.get().begin();
        }
    }

    /// Returns the generator's overhead in a request whose answer was read, by the kernel's timestamps; unknown if they
    /// are off. `sent` and `done`: right before its first byte was written, and right after the last byte was read.
    #[inline]
    pub fn overhead(&self, sent: Instant, done: Instant) -> Overhead {
        self.timestamps
            .as_ref()
            .map_or_else(Overhead::default, |timestamps| timestamps.get().overhead(self.socket.as_fd(), sent, done))
    }

    /// Reads available bytes into `space` without waiting; returns their number, 0 at the end of the stream. Fails
    /// with `WouldBlock` if none are available. Makes a system call only after the kernel has reported an event.
    pub fn try_read(&self, space: &mut [u8]) -> io::Result<usize> {
        self.try_read_by(space.len(), || (&self.socket).read(space))
    }

    /// Reads at most `len` bytes by `read`; returns their number, 0 at the end of the stream. Fails with `WouldBlock`
    /// if none are available.
    fn try_read_by(&self, len: usize, mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let readiness = self.readiness.get();
        while readiness.readable.get() {
            match read() {
                Ok(count) => {
                    // A partial read has drained the socket.
                    if count > 0 && count < len && !readiness.closed.get() {
                        readiness.readable.set(false);
                    }
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => readiness.readable.set(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Writes `len` bytes by `write`; returns the number written, which is less if the socket is full. Pending until
    /// it has room.
    fn poll_write_by(
        &self,
        cx: &mut Context<'_>,
        len: usize,
        mut write: impl FnMut(&mut &std::net::TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let readiness = self.readiness.get();
        let budget = ready!(poll_budget(cx));
        while readiness.writable.get() {
            match write(&mut &self.socket) {
                Ok(count) => {
                    budget.made_progress();
                    if let Some(timestamps) = &self.timestamps {
                        timestamps.get().wrote(self.socket.as_fd(), count);
                    }
                    // A partial write has filled the socket.
                    if count < len {
                        readiness.writable.set(false);
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => readiness.writable.set(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    budget.made_progress();
                    return Poll::Ready(Err(error));
                }
            }
        }
        wait(&readiness.writer, cx);
        Poll::Pending
    }

    /// Returns `Ready` once a write may succeed; until then keeps the task's waker.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let readiness = self.readiness.get();
        if readiness.writable.get() {
            return Poll::Ready(());
        }
        wait(&readiness.writer, cx);
        Poll::Pending
    }
}

/// Stores the waker of the calling task in `cell`, unless the stored one wakes the same task.
fn wait(cell: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut waker = cell.borrow_mut();
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

impl Drop for TcpStream {
    /// Removes the socket from its reactor, before its descriptor is closed. Does nothing on another thread.
    fn drop(&mut self) {
        if self.readiness.is_here() {
            with_current(|reactor: &Reactor| reactor.forget(self.token, self.readiness.get()));
        }
    }
}

impl AsyncRead for TcpStream {
    /// Reads available bytes into the unfilled part of `space`; adds none at the end of the stream. Pending until
    /// bytes arrive. Does not initialise the space first: libraries pass several KiB for each answer.
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, space: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let budget = ready!(poll_budget(cx));
        // SAFETY: The kernel only writes to it.
        let unfilled = unsafe { space.unfilled_mut() };
        let len = unfilled.len();
        let read = || match &self.timestamps {
            None => Ok(rustix::io::read(&self.socket, &mut *unfilled)?.0.len()),
            Some(timestamps) => timestamps.get().read(self.socket.as_fd(), unfilled),
        };
        match self.try_read_by(len, read) {
            Ok(count) => {
                budget.made_progress();
                // SAFETY: The kernel has written these bytes.
                unsafe { space.assume_init(count) };
                space.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&self.readiness.get().reader, cx);
                Poll::Pending
            }
            Err(error) => {
                budget.made_progress();
                Poll::Ready(Err(error))
            }
        }
    }
}

impl AsyncWrite for TcpStream {
    /// Writes bytes; returns the number written, which is less if the socket is full. Pending until it has room.
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, bytes.len(), |socket| socket.write(bytes))
    }

    /// Writes several slices by one system call, at most 1024; returns the number of bytes written. Pending until the
    /// socket has room.
    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The standard library passes at most this many.
        let parts = &parts[..parts.len().min(1024)];
        let len = parts.iter().map(|part| part.len()).sum();
        self.poll_write_by(cx, len, |socket| socket.write_vectored(parts))
    }

    /// Returns true: several slices are written by one system call.
    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: no bytes are buffered.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the sending direction; also succeeds if the peer has reset the connection.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.socket.shutdown(Shutdown::Write) {
            // The peer has reset the connection.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        })
    }
}
