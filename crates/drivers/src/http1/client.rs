//! One HTTP/1.1 connection with one request in flight: made for many small requests per second on one thread.
//!
//! A request costs one write and one read when both fit the socket's buffers: a partial read tells Tokio that the
//! socket is drained, and the next read waits for the kernel's word. The timeout costs a comparison: its timer
//! is armed once per period, not per request. Nothing is tried twice; the caller decides.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use loadframe_engine::driver::ErrorClass;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::answer::{Answer, Malformed};

/// Why there is no answer.
#[derive(Debug)]
pub struct Trouble {
    /// Connect or Timeout.
    pub class: ErrorClass,
    /// In words.
    pub message: String,
}

impl Trouble {
    fn broken(message: impl Into<String>) -> Self {
        Self { class: ErrorClass::Connect, message: message.into() }
    }

    fn late(what: &str, timeout: Duration) -> Self {
        Self { class: ErrorClass::Timeout, message: format!("{what} within {} s", timeout.as_secs_f64()) }
    }
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Self {
        Self::broken(malformed.to_string())
    }
}

/// A request that was sent, or begun to be.
#[derive(Debug)]
pub struct Exchanged {
    /// Right before the first byte was written.
    pub sent: Instant,
    /// Right after the last byte was read, or when the request was given up.
    pub done: Instant,
    /// Bytes that the kernel took.
    pub bytes_sent: u64,
    /// Bytes that came.
    pub bytes_received: u64,
}

/// See the module. Nothing is connected at first.
pub struct Client {
    stream: Option<TcpStream>,
    answer: Answer,
    deadline: Deadline,
}

impl Client {
    /// Not connected yet.
    pub fn new() -> Self {
        Self { stream: None, answer: Answer::new(), deadline: Deadline(None) }
    }

    /// Whether there is a connection that the server has not closed meanwhile, as far as is known. Free of system
    /// calls unless the kernel has reported something.
    pub fn is_connected(&mut self) -> bool {
        let Some(stream) = &self.stream else { return false };
        // Nothing is due: an end, an error, and bytes that nobody asked for all mean that this one is over.
        let idle = matches!(stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if !idle {
            self.stream = None;
        }
        idle
    }

    /// Connects to the first of `addresses` that answers.
    pub async fn connect(&mut self, addresses: &[SocketAddr], timeout: Duration) -> Result<(), Trouble> {
        self.answer.begin(false);
        let connect = async {
            let mut last = io::Error::other("no address");
            for address in addresses {
                match TcpStream::connect(address).await.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        };
        let stream = match tokio::time::timeout(timeout, connect).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Trouble::broken(format!("cannot connect: {error}"))),
            Err(_) => return Err(Trouble::broken(format!("no connection within {} s", timeout.as_secs_f64()))),
        };
        self.stream = Some(stream);
        Ok(())
    }

    /// Sends a request that consists of `parts` and reads the answer, which stays in `answer` until the next; the
    /// error says why there is no whole one. `bodyless`: the request is HEAD. A server may answer before it has read
    /// all; its word counts then.
    pub async fn exchange(
        &mut self,
        parts: [&[u8]; 2],
        bodyless: bool,
        timeout: Duration,
    ) -> (Exchanged, Result<(), Trouble>) {
        self.answer.begin(bodyless);
        // The stream is put back when the exchange has ended well: one that was broken off is not used again.
        let stream = self.stream.take();
        let sent = Instant::now();
        let Some(mut stream) = stream else {
            let exchanged = Exchanged { sent, done: sent, bytes_sent: 0, bytes_received: 0 };
            return (exchanged, Err(Trouble::broken("not connected")));
        };
        let due = sent + timeout;
        self.deadline.arm(due);

        let mut outgoing = Outgoing { parts, written: 0, trouble: None };
        let mut done = sent;
        let outcome = poll_fn(|cx| {
            outgoing.poll(&mut stream, cx);
            if let Poll::Ready(outcome) = poll_answer(&mut stream, &mut self.answer, &mut done, cx) {
                return Poll::Ready(outcome);
            }
            ready!(self.deadline.poll(due, cx));
            done = Instant::now();
            Poll::Ready(Err(Trouble::late("no answer", timeout)))
        })
        .await;
        let (bytes_sent, bytes_received) = (outgoing.written as u64, self.answer.received());
        let outcome = match (outcome, outgoing.trouble.take()) {
            (Err(trouble), Some(error)) if trouble.class == ErrorClass::Connect => {
                Err(Trouble::broken(format!("the connection broke while sending: {error}")))
            }
            (outcome, _) => outcome,
        };
        if outcome.is_ok() && self.answer.reusable() && outgoing.is_written() {
            self.stream = Some(stream);
        }
        (Exchanged { sent, done, bytes_sent, bytes_received }, outcome)
    }

    /// The answer of the last exchange; complete if that ended well.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }
}

/// A request on its way out.
struct Outgoing<'a> {
    parts: [&'a [u8]; 2],
    written: usize,
    /// Writing failed: no more is written, but an answer may have come before.
    trouble: Option<io::Error>,
}

impl Outgoing<'_> {
    fn is_written(&self) -> bool {
        self.written == self.parts[0].len() + self.parts[1].len()
    }

    /// Writes as much as the socket takes.
    fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) {
        while !self.is_written() && self.trouble.is_none() {
            let [head, body] = self.parts;
            let stream = Pin::new(&mut *stream);
            let written = if self.written >= head.len() {
                stream.poll_write(cx, &body[self.written - head.len()..])
            } else if body.is_empty() {
                stream.poll_write(cx, &head[self.written..])
            } else {
                stream.poll_write_vectored(cx, &[io::IoSlice::new(&head[self.written..]), io::IoSlice::new(body)])
            };
            match written {
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => self.trouble = Some(error),
                Poll::Pending => return,
            }
        }
    }
}

/// Reads what has come; ready when the answer is complete or never will be. `done` is read after each read.
fn poll_answer(
    stream: &mut TcpStream,
    answer: &mut Answer,
    done: &mut Instant,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Trouble>> {
    loop {
        let mut space = ReadBuf::new(answer.space()?);
        let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut space));
        let count = space.filled().len();
        *done = Instant::now();
        let complete = match read {
            Ok(()) if count > 0 => answer.advance(count)?,
            Ok(()) if answer.end() => true,
            Ok(()) if answer.received() == 0 => {
                return Poll::Ready(Err(Trouble::broken("the server closed the connection without an answer")));
            }
            Ok(()) => return Poll::Ready(Err(Trouble::broken("the server closed the connection amid its answer"))),
            Err(error) => return Poll::Ready(Err(Trouble::broken(format!("the connection broke: {error}")))),
        };
        if complete {
            return Poll::Ready(Ok(()));
        }
    }
}

/// A timer that follows the deadlines of one request after another. It is armed for some deadline and left so; only
/// when it fires does it look whether the deadline has moved on meanwhile, which it has unless the server is silent.
struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Sees to it that the timer fires at `due` or before.
    fn arm(&mut self, due: Instant) {
        let due = tokio::time::Instant::from_std(due);
        match &mut self.0 {
            None => self.0 = Some(Box::pin(tokio::time::sleep_until(due))),
            Some(sleep) if sleep.deadline() > due => sleep.as_mut().reset(due),
            Some(_) => {}
        }
    }

    /// Ready when `due` has passed.
    fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = &mut self.0 else { return Poll::Ready(()) };
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(tokio::time::Instant::from_std(due));
        }
    }
}
