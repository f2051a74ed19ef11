//! The driver's face to the engine: mapping happens once, before the load; executing happens per request.
//!
//! A bad operation fails while it is mapped, with its name in the message. In the loop nothing is boxed and
//! nothing is shared: an operation is read-only, a connection belongs to one client on one thread.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::plan::{PlanError, Target};
use crate::util::draw::Draw;
pub use crate::util::error_class::ErrorClass;
use crate::workload::corpus::Corpora;
use crate::workload::event::Batch;
use crate::workload::variables::{Captured, Variables};

/// What operations may refer to.
pub struct Context {
    /// The workload's variables.
    pub variables: Variables,
    /// The workload's corpora.
    pub corpora: Corpora,
}

/// A protocol.
pub trait Driver: Sized + Send + Sync + 'static {
    /// An operation, ready to be turned into requests.
    type Operation: Send + Sync + 'static;
    /// What one client holds: its socket, its buffers. It connects when it is first used.
    type Connection: 'static;

    /// Whether clients keep values of answers for their later requests; variables that are `captured` are refused if
    /// not.
    const CAPTURES: bool = false;

    /// The driver for `target`. Resolves names; does not connect.
    fn new(target: &Target) -> Result<Self, PlanError>;

    /// Turns an operation of the workload (`{"search": {...}, "timeout": 5}`) into one that can be executed.
    fn map(&self, form: &Value, context: &Context) -> Result<Self::Operation, PlanError>;

    /// The names of the parts that an operation's answer is made of, such as the pages of a scroll; see [`ReplyPart`].
    /// They are recorded beside the operation, as `OPERATION.PART`.
    fn parts(&self, _operation: &Self::Operation) -> &'static [&'static str] {
        &[]
    }

    /// How many requests send each document of the operation's corpus once; `None` if it has no end.
    fn requests(&self, operation: &Self::Operation) -> Option<u64>;

    /// Says, right before the load, what no request will get past, such as a certificate that does not verify. That
    /// a host does not answer is not an error: it may come up later.
    fn verify(&self) -> impl Future<Output = Result<(), PlanError>> {
        ready(Ok(()))
    }

    /// Changes the target's hosts while load runs: within seconds those that have joined get their share of the
    /// requests, and those that have left get none.
    fn set_hosts(&self, _hosts: &[String]) -> Result<(), PlanError> {
        Err(PlanError::new("this driver cannot follow a target whose hosts change"))
    }

    /// The hosts that the target has ever had; [`Reply::node`] is a place in it.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }

    /// The hosts that cannot be reached now, each with the reason: the load avoids them.
    fn unreachable(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Lets no more than `connections` be open at a time: clients share them, and a request waits until one is free,
    /// before it counts as sent. `workers` threads have them by striding as they have the clients. Before the load.
    fn cap(&mut self, _connections: u64, _workers: u64) -> Result<(), PlanError> {
        Err(PlanError::new("this driver cannot cap its connections: leave \"connections\" out"))
    }

    /// The nodes that the clients of worker `worker` of `workers` may choose among, where each client asks one node at a
    /// time and any node serves any request. `None` where the driver itself chooses the node of each request.
    fn nodes(&self, _worker: u64, _workers: u64) -> Option<Box<dyn Nodes>> {
        None
    }

    /// Has a client ask the node with this number from its next request on. `keep`: connections to other nodes stay open.
    fn turn_to(&self, _connection: &mut Self::Connection, _node: u16, _keep: bool) {}

    /// What client number `client` holds.
    fn connection(&self, client: u64) -> Self::Connection;

    /// Another user takes over this client: values that were captured from answers are forgotten.
    fn depart(&self, connection: &mut Self::Connection) {
        if let Some(memory) = self.memory(connection) {
            memory.forget();
        }
    }

    /// Where a client keeps what its user knows from answers; `None` if it keeps nothing. Many users may share the
    /// client, each with values of its own that are here while its request is under way.
    fn memory<'a>(&self, _connection: &'a mut Self::Connection) -> Option<&'a mut Captured> {
        None
    }

    /// Builds request `draw`, sends it, waits for the answer and judges it. Building and judging lie outside
    /// `sent..done`. An error breaks no client: the connection is mended at the next call. Times out by itself.
    ///
    /// `only`: a bulk request carries only the documents at these places of the whole request, which an earlier attempt
    /// left (see [`Reply::rejected`]); `None` is all of them. Drivers that never fill `rejected` may ignore it.
    fn execute(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> impl Future<Output = Reply>;

    /// Whether an operation takes in the events of a source: it is executed by [`Driver::ingest`] and nothing else.
    fn ingests(&self, _operation: &Self::Operation) -> bool {
        false
    }

    /// The same as [`Driver::execute`] for an operation that takes in events, whose places in the batch stand for the
    /// documents of a bulk request. Sending an event twice changes nothing in the store.
    fn ingest(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _batch: &Batch,
        _only: Option<&[u32]>,
    ) -> impl Future<Output = Reply> {
        ready(Reply::unsent(Failure::new(ErrorClass::Client, "this operation takes in no events")))
    }

    /// The answer that an operation has just had, as JSON, where it is one and the client has all of it yet.
    fn answer<'a>(&self, _connection: &'a Self::Connection, _operation: &Self::Operation) -> Option<Cow<'a, [u8]>> {
        None
    }

    /// Whether events that an operation takes in can be looked for by [`Driver::look_for`]; the error says why not.
    fn looks_for(&self, _operation: &Self::Operation) -> Result<(), PlanError> {
        Err(PlanError::new("visible: this driver cannot look for the events that it has taken in: leave it out"))
    }

    /// Asks one query for all events of a batch, of which only the ids, kinds and instants are there; returns which it
    /// saw, by their places. A read that sees what was written before queries do is of no use here.
    fn look_for(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _batch: &Batch,
    ) -> impl Future<Output = (Reply, Vec<bool>)> {
        let failure = Failure::new(ErrorClass::Client, "this driver looks for no events");
        ready((Reply::unsent(failure), Vec::new()))
    }

    /// The same request as readable text, without sending it; `None` if only sending makes one. Of several the first.
    fn render(
        &self,
        _connection: &mut Self::Connection,
        _operation: &Self::Operation,
        _context: &Context,
        _draw: &Draw,
    ) -> Option<String> {
        None
    }

    /// Where a client records its request and answer for display; `None` if it does not record them itself.
    fn exchange(_connection: &mut Self::Connection) -> Option<&mut Option<Exchange>> {
        None
    }

    /// What is shown of an operation that takes in events, which sends nothing by itself: a sample of its request.
    fn sample(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let now = Instant::now();
        let request = self.render(connection, operation, context, draw).unwrap_or_default();
        let answer = "not sent: the operation sends the events of a source, and the request is a sample".to_owned();
        (Reply::new(now, now, Ok(())), Exchange { request, answer })
    }

    /// The same request and its answer as readable text, for `loadframe check`: what the client took down, and where
    /// it got no answer the reason.
    fn show(
        &self,
        connection: &mut Self::Connection,
        operation: &Self::Operation,
        context: &Context,
        draw: &Draw,
    ) -> impl Future<Output = (Reply, Exchange)> {
        async move {
            if self.ingests(operation) {
                return self.sample(connection, operation, context, draw);
            }
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
    /// The numbers of the nodes, each with the weight of its share; none where the driver chooses the nodes.
    fn available(&mut self) -> &[(u16, u32)];
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Right before the first byte was written.
    pub sent: Instant,
    /// Right after the last byte of the answer was read, or the request was given up.
    pub done: Instant,
    /// The judgement.
    pub outcome: Result<(), Failure>,
    /// Bytes written and read, heads included.
    pub bytes_sent: u64,
    /// See `bytes_sent`.
    pub bytes_received: u64,
    /// Documents that the store took or returned.
    pub documents: u64,
    /// Which of the target's hosts served it.
    pub node: u16,
    /// What it consisted of, if the operation has [`Driver::parts`].
    pub parts: Vec<ReplyPart>,
    /// Documents of a bulk request that failed and may get through when they are sent again, by their places among
    /// those that this attempt carried; see [`Driver::execute`]. Empty if none may, or if the request failed as a
    /// whole.
    pub rejected: Vec<u32>,
    /// Whether documents of a bulk request failed that are not among `rejected`: sending them again changes nothing.
    pub lost: bool,
    /// Their places among those that this attempt carried, where the driver knows them. Events that are not here were not
    /// refused, however the request failed.
    pub refused: Vec<u32>,
    /// How many of the documents that should have been found were, if that was asserted.
    pub recall: Option<Recall>,
    /// The HTTP status of the answer, if there is one.
    pub status: Option<u16>,
    /// How long the store asks to wait before the request is sent again.
    pub retry_after: Option<Duration>,
    /// Documents that earlier attempts of the request got through, which were counted with those.
    pub earlier: u64,
}

impl Reply {
    /// A request that took from `sent` to `done`, with nothing else known of it: no bytes, no documents, node 0.
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
        }
    }

    /// A request that was never sent.
    pub fn unsent(failure: Failure) -> Self {
        let now = Instant::now();
        Self::new(now, now, Err(failure))
    }
}

/// How many of the documents that are known to be the right ones an answer had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Those that should be there.
    pub relevant: u64,
    /// Of these, those that the answer has.
    pub retrieved: u64,
}

/// One exchange with the store out of several that an operation consists of: a page of a scan, the read of a
/// read-modify-write. The operation's own `sent` is that of its first part, its `done` that of its last.
///
/// A part has no schedule of its own, so its response time is its service time: `done - sent`. It is written down when
/// its operation is, in that second.
#[derive(Clone, Copy, Debug)]
pub struct ReplyPart {
    /// Its place in [`Driver::parts`].
    pub name: usize,
    /// See [`Reply::sent`].
    pub sent: Instant,
    /// See [`Reply::done`].
    pub done: Instant,
    /// Documents that the store took or returned.
    pub documents: u64,
    /// How it failed, if it did.
    pub failed: Option<ErrorClass>,
}

/// Why a request was not a success.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The class that is counted.
    pub class: ErrorClass,
    /// The store's own words, or the system's; the first few of each class are kept.
    pub message: String,
    /// Whether the store refuses the sender or the target, such as for its credentials or a missing collection: the
    /// documents are not to blame.
    pub denied: bool,
}

impl Failure {
    /// A failure of that class, with the reason in words.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), denied: false }
    }

    /// The same for a request whose documents are not to blame.
    #[must_use]
    pub fn denied(self) -> Self {
        Self { denied: true, ..self }
    }

    /// Whether the contents of the request are to blame: sent again, it fails again.
    pub fn is_of_contents(&self) -> bool {
        !self.class.may_pass() && !self.denied
    }
}

/// A request and its answer, for people.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// Request line, and body if there is one.
    pub request: String,
    /// Status line and body.
    pub answer: String,
}
