//! MongoDB driver: single servers, replica sets, and sharded clusters behind routers.
//!
//! This module encodes requests as BSON, once each. Each client has its own connection to each node, so this module
//! decides and records the node of each request.

mod answer;
mod bson;
mod bulk;
mod connection;
mod daily;
mod error;
mod execute;
mod ingest;
mod login;
mod message;
mod nodes;
mod operation;
mod request;
mod verbs;

use std::borrow::Cow;
use std::sync::Arc;

use loadframe_engine::driver::{Context, Driver, Exchange, Failure, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::reactor;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::Value;

use self::answer::Answer;
use self::connection::NodeConnection;
use self::execute::Execution;
use self::nodes::{Mode, MongoNodes};
pub use self::operation::Operation;
use self::operation::{Kind, Prefer};
use self::request::Buffers;
use crate::capture::{Memory, execute_with_memory};
use crate::crud::Neutral;
use crate::daily::generations::Register;
use crate::daily::{Buckets, PARTS};
use crate::net::assignment::Assignment;
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;

use crate::tally::Tally;

/// The driver of one target.
pub struct Mongo {
    nodes: Arc<MongoNodes>,
    /// Daily collections of events.
    buckets: Register<Buckets>,
}

/// The state of one client.
pub struct Connection {
    client: u64,
    /// Assignment to one of several equivalent hosts.
    assignment: Assignment,
    /// By node number.
    connections: Vec<NodeConnection>,
    buffers: Buffers,
    memory: Memory,
    /// The answer to the last query, if it succeeded.
    newest: Option<Answer>,
    /// Number of the next batch of events. Starts at the client's number.
    number: u64,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Mongo {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let nodes = MongoNodes::new(&target.hosts, target.spread, ConnectOptions::new(target)?)?;
        Ok(Self { nodes: Arc::new(nodes), buckets: Register::default() })
    }

    /// Returns true: replies carry the kernel's timestamps.
    fn has_kernel_timestamps(&self) -> bool {
        true
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation of the workload, such as `{"read": {...}, "timeout": 5}`. Refuses unsupported ones.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        Operation::map(form, context, &self.buckets, self.nodes.connect_options.timeout)
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        match &operation.kind {
            Kind::Neutral(neutral) => neutral.parts(),
            Kind::DeleteDays(..) => &PARTS,
            Kind::Query(_) | Kind::Command(_) | Kind::Ingest(..) => &[],
        }
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral) = &operation.kind { neutral.requests() } else { None }
    }

    /// Discovers the kind of target. Fails if a host rejects the credentials; ignores unreachable hosts.
    async fn verify(&self) -> Result<(), PlanError> {
        DiscoveryError::refusal(self.nodes.discover().await)
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.nodes.hosts()
    }

    /// Returns the hosts that are unreachable now, each with the reason.
    fn unreachable(&self) -> Vec<(String, String)> {
        self.nodes.unreachable()
    }

    /// Returns the hosts that this worker's clients choose from. In a replica set, the roles of its members choose
    /// instead. `None` unless the spread is fixed.
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        let nodes = self.nodes.clone();
        self.nodes.topology.choice(worker, workers, move || nodes.mode() != Mode::Set)
    }

    /// Switches a client to a node from its next request on. `keep`: connections to other nodes stay open.
    fn turn_to(&self, connection: &mut Connection, node: u16, keep: bool) {
        connection.assignment.turn_to(node, keep);
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        Connection {
            client,
            assignment: Assignment::new(self.nodes.topology.clone(), client),
            connections: Vec::new(),
            buffers: Buffers::default(),
            memory: Memory::default(),
            newest: None,
            number: client,
            shown: None,
        }
    }

    /// Returns the documents of the client's last query as JSON, if the client has all of them.
    fn answer<'a>(&self, connection: &'a Connection, operation: &Operation) -> Option<Cow<'a, [u8]>> {
        let Kind::Query(_) = &operation.kind else { return None };
        connection.newest.as_ref()?.list().map(Cow::Owned)
    }

    execute_with_memory!();

    /// Returns whether the operation ingests the events of a source.
    fn ingests(&self, operation: &Operation) -> bool {
        matches!(operation.kind, Kind::Ingest(..))
    }

    /// Sends the events of a batch, or those at the indices `only`. Returns one reply for all.
    async fn ingest(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        _context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        let Kind::Ingest(form, buckets) = &operation.kind else { return crate::ingest::without_source() };
        let limit = Limit::starting_now(operation.timeout);
        if let Err(failure) = self.find_out(limit).await {
            return Reply::unsent(failure);
        }
        let draw = Draw::new(0, 0, connection.number);
        connection.number += 1;
        let prefer = Prefer::Primary;
        let execution = Execution { nodes: &self.nodes, operation, prefer, draw, only, limit };
        execution.ingest(connection, (form, buckets.as_deref()), batch).await
    }

    /// Accepts every operation: ingested events can be queried.
    fn looks_for(&self, _operation: &Operation) -> Result<(), PlanError> {
        Ok(())
    }

    /// Queries once which events of a batch are visible. Returns the reply, and a flag for each event; no flags if the
    /// query fails.
    async fn look_for(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        _context: &Context,
        batch: &Batch,
    ) -> (Reply, Vec<bool>) {
        let Kind::Ingest(form, _) = &operation.kind else { return (crate::ingest::without_source(), Vec::new()) };
        let limit = Limit::starting_now(operation.timeout);
        if let Err(failure) = self.find_out(limit).await {
            return (Reply::unsent(failure), Vec::new());
        }
        let draw = Draw::new(0, 0, connection.number);
        connection.number += 1;
        let prefer = operation.prefer;
        let execution = Execution { nodes: &self.nodes, operation, prefer, draw, only: None, limit };
        execution.look_for(connection, form, batch).await
    }

    /// Returns the command of request `draw`, or the first of several, as JSON without sending it. Captured values are
    /// empty. `None` if it cannot be built, or for an operation that ingests events or deletes days.
    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        let command = match &operation.kind {
            Kind::Query(template) | Kind::Command(template) => connection.buffers.native(template, &values),
            Kind::Neutral(Neutral::Bulk(bulk)) => {
                let commands = bulk::commands((bulk, None), operation.concern, draw.k, &mut Tally::default());
                Ok(commands.ok()?.into_iter().next()?.0)
            }
            Kind::Neutral(neutral) => connection.buffers.verb(neutral, operation.concern, &values)?,
            Kind::Ingest(..) | Kind::DeleteDays(..) => return None,
        };
        bson::json(&command.ok()?).map(|command| command.to_string())
    }

    /// Returns the command for a batch of events, or the first of several, as JSON without sending it. `None` if it
    /// cannot be built, or for an operation that does not ingest events.
    fn render_events(
        &self,
        _connection: &mut Connection,
        operation: &Operation,
        _context: &Context,
        batch: &Batch,
    ) -> Option<String> {
        let Kind::Ingest(form, buckets) = &operation.kind else { return None };
        // The sample events share one day.
        let day = buckets.as_ref().zip(batch.events.first()).map(|(days, event)| days.generations.name(event.time));
        let into = day.as_ref().unwrap_or(&form.collection);
        let events = (0..).zip(&batch.events);
        let commands = ingest::commands(form, into, batch, events, operation.concern, &mut Tally::default());
        bson::json(&commands.ok()?.into_iter().next()?.0).map(|command| command.to_string())
    }
}

impl Mongo {
    /// Discovers the kind of target, if it is unknown. Starts a background refresh if members may be outdated. Fails if
    /// nothing is found within `limit`.
    async fn find_out(&self, limit: Limit) -> Result<(), Failure> {
        if self.nodes.mode() == Mode::Unknown {
            match limit.within(self.nodes.discover()).await {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(limit.missed()),
            }
        }
        if let Some(refresh) = self.nodes.claim() {
            let nodes = self.nodes.clone();
            // If this fails, the next client that marks the members as outdated starts another refresh.
            reactor::spawn(async move {
                drop(nodes.discover().await);
                refresh.end();
            });
        }
        Ok(())
    }

    /// Discovers the kind of target, if it is unknown, then executes the operation.
    /// `only`: indices of the documents of a bulk request, `None` for all.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        let limit = Limit::starting_now(operation.timeout);
        if let Err(failure) = self.find_out(limit).await {
            return Reply::unsent(failure);
        }
        let prefer = operation.prefer;
        Execution { nodes: &self.nodes, operation, prefer, draw: *values.draw, only, limit }
            .ask(connection, values)
            .await
    }
}
