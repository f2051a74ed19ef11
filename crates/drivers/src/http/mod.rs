//! Driver for REST APIs over HTTP/1.1: user-defined requests, values captured from answers for the client's later
//! requests, and assertions on answers.

mod answer;
mod operation;
mod server_timing;

use std::borrow::Cow;

use loadframe_engine::driver::{Context, Driver, Exchange, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::Value;

use crate::assertion::assertion;
pub use crate::http::operation::Operation;
use crate::http1;
use crate::http1::Http1;
use crate::net::deadline::Limit;

/// The driver of one target.
#[derive(Debug)]
pub struct Http {
    http: Http1,
}

/// The state of one client: its connections and its captured values.
pub struct Connection {
    http: http1::Connection,
    captured: Captured,
}

impl Driver for Http {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        Http1::new(target).map(|http| Self { http })
    }

    /// Returns true: replies carry the kernel's timestamps.
    fn has_kernel_timestamps(&self) -> bool {
        true
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation of the workload: `{"http": {"method": "GET", "path": "/"}, "timeout": 5}`. Refuses
    /// unsupported ones.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        Operation::map(form, &context.variables, self.http.timeout())
    }

    /// Returns the names of the times that the operation reads from answers, which are recorded as parts.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        operation.timing.parts()
    }

    /// Returns true: some operations can carry a trace context.
    fn has_traces(&self) -> bool {
        true
    }

    /// Returns whether the operation's requests carry a trace context, as a header.
    fn traces(&self, operation: &Operation) -> bool {
        operation.request.traces()
    }

    /// Returns `None`: operations have no corpus.
    fn requests(&self, _operation: &Operation) -> Option<u64> {
        None
    }

    /// Checks TLS to all hosts. A host that does not answer is not an error.
    async fn verify(&self) -> Result<(), PlanError> {
        self.http.verify().await
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.http.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.http.hosts()
    }

    /// Returns the hosts that are unreachable now, each with the reason.
    fn unreachable(&self) -> Vec<(String, String)> {
        self.http.unreachable()
    }

    /// Limits the open connections of all clients to `connections`, divided among `workers` threads. Refuses a number
    /// with which a worker could not reach each host.
    fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        self.http.cap(connections, workers)
    }

    /// Returns the nodes that this worker's clients choose from; `None` unless the spread is fixed.
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        self.http.nodes(worker, workers)
    }

    /// Switches a client to a node from its next request on. `keep`: connections to other nodes stay open.
    fn turn_to(&self, connection: &mut Connection, node: u16, keep: bool) {
        connection.http.turn_to(node, keep);
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        Connection { http: self.http.connection(client), captured: Captured::NONE }
    }

    /// Returns the captured values of the client's current user; never `None`.
    fn memory<'a>(&self, connection: &'a mut Connection) -> Option<&'a mut Captured> {
        Some(&mut connection.captured)
    }

    /// Sends a request and judges its answer; captures values from a success. Sends nothing if a captured value is
    /// missing.
    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        _only: Option<&[u32]>,
    ) -> Reply {
        let Connection { http, captured } = connection;
        let variables = &context.variables;
        if let Some(name) = operation.missing(captured) {
            http.forget();
            return unsent(name);
        }
        let values = Values { variables, draw, captured };
        let limit = Limit::starting_now(operation.timeout);
        match self.http.ask(http, &operation.request, limit, &values).await {
            Ok(answered) => {
                let outcome = operation.expect.judge(http.answer(), &values);
                let outcome = outcome.and_then(|()| operation.captures.keep_from(http.answer(), captured));
                let status = Some(http.answer().status());
                let retry_after = http.answer().retry_after();
                let mut reply = Reply { status, retry_after, ..answered.reply(0, outcome) };
                operation.timing.read(http.answer(), &mut reply);
                reply
            }
            Err(reply) => reply,
        }
    }

    /// Returns the last answer as JSON, if it is JSON and the client has all of it.
    fn answer<'a>(&self, connection: &'a Connection, _operation: &Operation) -> Option<Cow<'a, [u8]>> {
        connection.http.answer().whole().map(Cow::Borrowed)
    }

    /// Returns the request `draw` as text without sending it. Captured values are empty.
    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        // Captured values are rendered as empty.
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        Some(self.http.written(&mut connection.http, &operation.request, &values))
    }

    /// Executes the request `draw`, and returns it with its answer as text.
    async fn show(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> (Reply, Exchange) {
        let reply = self.execute(connection, operation, context, draw, None).await;
        let exchange = connection.http.shown(&operation.request, &reply);
        (reply, exchange)
    }
}

/// Returns the reply for a request that was not sent, because the captured value `name` is missing.
/// Its failure has class Assertion.
fn unsent(name: &str) -> Reply {
    let message = format!("not sent: no answer has given this client a value for \"{name}\" yet");
    Reply::unsent(assertion(message))
}
