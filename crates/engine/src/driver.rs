//! Interface between the engine and a driver. Operations are mapped once, before the load, and executed per
//! request.
//!
//! A bad operation fails during mapping, and the message names it. The request loop boxes and shares nothing:
//! an operation is read-only, and a connection belongs to one client on one thread.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plan::{PlanError, Target};
pub use crate::reactor::overhead::Overhead;
use crate::util::draw::Draw;
pub use crate::util::error_class::ErrorClass;
use crate::workload::corpus::Corpora;
use crate::workload::event::Batch;
use crate::workload::variables::{Captured, Variables};

/// Variables and corpora of a workload.
pub struct Context {
    /// The workload's variables.
    pub variables: Variables,
    /// The workload's corpora.
    pub corpora: Corpora,
}

/// A protocol.
pub trait Driver: Sized + Send + Sync + 'static {
    /// A mapped operation, from which requests are built.
    type Operation: Send + Sync + 'static;
    /// State of one client, such as sockets and buffers. It connects on first use.
    type Connection: 'static;

    /// Creates the driver for `target`. Resolves names; does not connect. Refuses settings that the driver does not
    /// support, and names that cannot be resolved.
    fn new(target: &Target) -> Result<Self, PlanError>;

    /// Returns whether a library of the driver does its I/O by Tokio. Then each worker is a Tokio runtime instead of a
    /// reactor.
    fn uses_tokio(&self) -> bool {
        false
    }

    /// Returns whether replies carry the kernel's timestamps in [`Reply::overhead`], if the plan asks for them.
    fn has_kernel_timestamps(&self) -> bool {
        false
    }

    /// Returns whether clients can keep values of answers for later requests. If not, `captured` variables are
    /// refused.
    fn captures(&self) -> bool {
        false
    }

    /// Maps an operation of the workload, such as `{"search": {...}, "timeout": 5}`, to a form from which requests are
    /// built. Refuses an operation that it does not support.
    fn map(&self, form: &Value, context: &Context) -> Result<Self::Operation, PlanError>;

    /// Returns the names of an operation's parts, such as the pages of a scroll; see [`ReplyPart`]. Each is
    /// recorded as `OPERATION.PART`.
    fn parts(&self, _operation: &Self::Operation) -> &'static [&'static str] {
        &[]
    }

    /// Returns whether any operation of this driver can carry a trace context; see [`Driver::traces`].
    fn has_traces(&self) -> bool {
        false
    }

    /// Returns whether an operation's requests carry [`Draw::trace`] or [`Batch::trace`] as the header `traceparent`.
    fn traces(&self, _operation: &Self::Operation) -> bool {
        false
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` if
    /// unlimited.
    fn requests(&self, operation: &Self::Operation) -> Option<u64>;

    /// Checks for errors that would fail every request, such as an invalid certificate. Runs right before the
    /// load. An unreachable host is not an error: it may start later.
    fn verify(&self) -> impl Future<Output = Result<(), PlanError>> {
        ready(Ok(()))
    }

    /// Changes the target's hosts while load runs. Within seconds, new hosts get their share of the requests
    /// and removed hosts get none. By default not supported: fails.
    fn set_hosts(&self, _hosts: &[String]) -> Result<(), PlanError> {
        Err(PlanError::new("this driver does not support changing hosts"))
    }

    /// Returns all hosts that the target has ever had. [`Reply::node`] is an index into them.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the hosts that are unreachable now, each with the reason. The load avoids them.
    fn unreachable(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Limits the open connections to `connections`. Clients share them: a request waits for a free
    /// connection before it counts as sent. Connections are distributed over the `workers` threads by
    /// striding, like clients. Called before the load. By default not supported: fails.
    fn cap(&mut self, _connections: u64, _workers: u64) -> Result<(), PlanError> {
        Err(PlanError::new("this driver cannot limit its connections: remove \"connections\""))
    }

    /// Returns the nodes that clients of worker `worker` of `workers` can choose from.
    /// `None` if the driver selects the node of each request. Otherwise a client uses one node at a time, and any node
    /// serves any request.
    fn nodes(&self, _worker: u64, _workers: u64) -> Option<Box<dyn Nodes>> {
        None
    }

    /// Switches a client to node number `node` from its next request on. `keep`: connections to other nodes stay
    /// open.
    fn turn_to(&self, _connection: &mut Self::Connection, _node: u16, _keep: bool) {}

    /// Creates the state of client number `client`.
    fn connection(&self, client: u64) -> Self::Connection;

    /// Clears the captured values, because another user takes over this client.
    fn depart(&self, connection: &mut Self::Connection) {
        if let Some(memory) = self.memory(connection) {
            memory.forget();
        }
    }

    /// Returns the captured values of the client's current user; `None` if the driver keeps none. When users
    /// share a client, the engine swaps in the values of the user that sends.
    fn memory<'a>(&self, _connection: &'a mut Self::Connection) -> Option<&'a mut Captured> {
        None
    }

    /// Builds request `draw`, sends it, waits for the answer and evaluates it. `sent..done` excludes building
    /// and evaluation. After an error the connection is repaired at the next call. The driver enforces the
    /// time-out.
    ///
    /// `only`: indices of the documents of a bulk request to send, namely those that an earlier attempt left
    /// (see [`Reply::rejected`]); `None` for all. Drivers that never fill `rejected` may ignore it.
    fn execute(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> impl Future<Output = Reply>;

    /// Returns whether an operation ingests the events of a source, through [`Driver::ingest`] only.
    fn ingests(&self, _operation: &Self::Operation) -> bool {
        false
    }

    /// Sends the events of a batch, for an operation that ingests events; otherwise the same as [`Driver::execute`].
    /// `only` and the indices in the reply are indices of events in the batch. Sending an event twice must not change
    /// the store. By default fails without sending.
    fn ingest(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _batch: &Batch,
        _only: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        ready(Reply::unsent(Failure::new(ErrorClass::Client, "this operation does not ingest events")))
    }

    /// Returns the last answer as JSON, if it is JSON and the client still has all of it.
    fn answer<'a>(&self, _connection: &'a Self::Connection, _operation: &Self::Operation) -> Option<Cow<'a, [u8]>> {
        None
    }

    /// Refuses an operation that [`Driver::look_for`] does not support; the error says why.
    fn looks_for(&self, _operation: &Self::Operation) -> Result<(), PlanError> {
        Err(PlanError::new("visible: this driver cannot query ingested events: remove it"))
    }

    /// Queries all events of a batch at once, which `operation` ingested. Returns the reply, and for each event of the
    /// batch whether it was found; an empty vector if the reply is a failure. The batch has ids, kinds and times, but
    /// no lines. Use a read with normal query visibility, not one that sees writes earlier.
    fn look_for(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _batch: &Batch,
    ) -> impl Future<Output = (Reply, Vec<bool>)> {
        let failure = Failure::new(ErrorClass::Client, "this driver cannot query ingested events");
        ready((Reply::unsent(failure), Vec::new()))
    }

    /// Returns the request as readable text without sending it; the first one if there are several. `None` if
    /// it exists only during sending, or cannot be built.
    fn render(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _draw: &Draw,
    ) -> Option<String> {
        None
    }

    /// Returns the client's storage for the readable request and answer of [`Driver::show`].
    /// A driver fills it while it is `Some`. `None` if the driver does not record them.
    fn exchange(_connection: &mut Self::Connection) -> Option<&mut Option<Exchange>> {
        None
    }

    /// Returns the request of an ingesting operation for a batch as readable text, without sending it.
    /// `None` if the driver cannot ingest events.
    fn render_events(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _batch: &Batch,
    ) -> Option<String> {
        None
    }

    /// Executes the request and returns it with its answer as readable text, for `loadframe check`. Without
    /// an answer, the text gives the reason.
    fn show(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
    ) -> impl Future<Output = (Reply, Exchange)> {
        async move {
            if let Some(taken_down) = Self::exchange(connection) {
                *taken_down = Some(Exchange::default());
            }
            let reply = self.execute(connection, operation, context, draw, None).await;
            let mut exchange = Self::exchange(connection).and_then(Option::take).unwrap_or_default();
            if let (true, Err(failure)) = (exchange.answer.is_empty(), &reply.outcome) {
                exchange.answer.clone_from(&failure.message);
            }
            (reply, exchange)
        }
    }
}

/// The nodes of a target that accept connections.
pub trait Nodes {
    /// Returns the numbers of the nodes, each with its weight: its share of the requests. Empty if the driver selects
    /// the nodes.
    fn available(&mut self) -> &[(u16, u32)];
}

/// The node of a request that was sent to none, or of which no node is known.
pub const NO_NODE: u16 = u16::MAX;

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Right before the first byte was written. Of several exchanges in turn, later by the time between them, so that
    /// `done - sent` is their sum.
    pub sent: Instant,
    /// Right after the last byte of the answer was read, or the request was given up.
    pub done: Instant,
    /// Success or failure.
    pub outcome: Result<(), Failure>,
    /// Bytes written and read, heads included.
    pub bytes_sent: u64,
    /// See `bytes_sent`.
    pub bytes_received: u64,
    /// Documents that the store stored or returned. Of a failed request, only those that a retry does not repeat.
    pub documents: u64,
    /// Index of the host that served the request, or [`NO_NODE`].
    pub node: u16,
    /// Exchanges of the request, if the operation has [`Driver::parts`].
    pub parts: Vec<ReplyPart>,
    /// Documents of a bulk request that failed and may succeed in a retry, as indices into the documents of
    /// this attempt; see [`Driver::execute`]. Empty if none may, or if the request failed as a whole.
    pub rejected: Vec<u32>,
    /// Whether documents failed permanently; they are not in `rejected`.
    pub lost: bool,
    /// Indices of the permanently failed documents, if the driver knows them. Events not listed here were not
    /// refused, even if the request failed.
    pub refused: Vec<u32>,
    /// Recall of the answer, if asserted.
    pub recall: Option<Recall>,
    /// The HTTP status of the answer, if there is one.
    pub status: Option<u16>,
    /// Wait before a retry, as requested by the store.
    pub retry_after: Option<Duration>,
    /// Documents stored by earlier attempts and counted there.
    pub earlier: u64,
    /// The generator's part of `sent..done`, if the kernel's timestamps of the exchanges are known.
    pub overhead: Overhead,
}

impl Reply {
    /// Creates a reply with these times and outcome, and zero for everything else.
    pub fn new(sent: Instant, done: Instant, outcome: Result<(), Failure>) -> Self {
        Self {
            sent,
            done,
            outcome,
            bytes_sent: 0,
            bytes_received: 0,
            documents: 0,
            node: 0,
            parts: Vec::new(),
            rejected: Vec::new(),
            lost: false,
            refused: Vec::new(),
            recall: None,
            status: None,
            retry_after: None,
            earlier: 0,
            overhead: Overhead::default(),
        }
    }

    /// Returns this reply as one part of its operation. `name`: index of the part in [`Driver::parts`].
    pub fn part(&self, name: usize) -> ReplyPart {
        let failed = self.outcome.as_ref().err().map(|failure| failure.class);
        ReplyPart { name, sent: self.sent, done: self.done, documents: self.documents, failed }
    }

    /// Creates the reply of a request that was never sent: both times are now, it has no node, and it failed with
    /// `failure`.
    pub fn unsent(failure: Failure) -> Self {
        let now = Instant::now();
        Self { node: NO_NODE, ..Self::new(now, now, Err(failure)) }
    }

    /// Returns the node of this exchange, or `other` if it has none. `other`: node of another exchange of the request.
    pub fn node_or(&self, other: u16) -> u16 {
        if self.node == NO_NODE { other } else { self.node }
    }
}

/// Recall of an answer against known relevant documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Relevant documents.
    pub relevant: u64,
    /// Relevant documents in the answer.
    pub retrieved: u64,
}

/// One of several exchanges of an operation, such as a page of a scan or the read of a read-modify-write.
///
/// A part has a service time (`done - sent`), which is also its response time, because parts are not
/// scheduled. It is recorded in the same second as its operation.
#[derive(Clone, Copy, Debug)]
pub struct ReplyPart {
    /// Its index in [`Driver::parts`].
    pub name: usize,
    /// See [`Reply::sent`].
    pub sent: Instant,
    /// See [`Reply::done`].
    pub done: Instant,
    /// Documents that the store stored or returned.
    pub documents: u64,
    /// The error class, if it failed.
    pub failed: Option<ErrorClass>,
}

/// Failure of a request.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The class that is counted.
    pub class: ErrorClass,
    /// The message of the store or the system. The first few of each class are kept.
    pub message: String,
    /// Whether the store refuses the sender or the target, such as for wrong credentials or a missing
    /// collection. Then the documents are not the cause.
    pub denied: bool,
}

impl Failure {
    /// Creates a failure with a class and a message.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), denied: false }
    }

    /// Marks the failure as not caused by the documents.
    #[must_use]
    pub fn denied(self) -> Self {
        Self { denied: true, ..self }
    }

    /// Returns whether the request's contents caused the failure, so that a retry fails again.
    pub fn is_of_contents(&self) -> bool {
        !self.class.may_pass() && !self.denied
    }
}

/// A request and its answer as readable text.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// Request line, and body if there is one.
    pub request: String,
    /// Status line and body.
    pub answer: String,
}
