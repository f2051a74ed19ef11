//! PostgreSQL driver, on top of the library `tokio-postgres`: one primary, and replicas for reading.
//!
//! Each client has its own connection to each server that it uses, because a server runs a process per connection. The
//! driver chooses the server for each request.

mod answer;
mod bulk;
mod connection;
mod control;
mod error;
mod execute;
mod nodes;
mod operation;
mod read_from;
mod request;
mod statements;
mod stream;
mod table;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loadframe_engine::driver::{Context, Driver, Exchange, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::reactor;
use loadframe_engine::workload::variables::Values;
use serde_json::Value;

use self::connection::{ConnectOptions, NodeConnection};
use self::nodes::PostgresNodes;
use self::operation::Kind;
pub use self::operation::Operation;
use self::request::Buffers;
use self::statements::Execution;
use crate::capture::{Memory, execute_with_memory};
use crate::net::deadline::{Deadline, Limit};

/// The driver of one target.
pub struct Postgres {
    nodes: Arc<PostgresNodes>,
    /// Number of operations mapped so far.
    operations: AtomicUsize,
}

/// State of one client.
pub struct Connection {
    client: u64,
    /// Connections, by number of the node.
    connections: Vec<Option<NodeConnection>>,
    deadline: Deadline,
    buffers: Buffers,
    memory: Memory,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Postgres {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts; does not connect.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let nodes = PostgresNodes::new(&target.hosts, target.spread, ConnectOptions::new(target)?)?;
        Ok(Self { nodes: Arc::new(nodes), operations: AtomicUsize::new(0) })
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation of the workload, such as `{"read": {...}, "timeout": 5}`.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        Operation::map(form, number, context, &self.nodes.connect_options)
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        match &operation.kind {
            Kind::Neutral(neutral) => neutral.parts(),
            Kind::Statement(_) => &[],
            Kind::Transaction(transaction) if transaction.expects_rollback => &operation::ROLLED_BACK_PARTS,
            Kind::Transaction(_) => &operation::PARTS,
        }
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral) = &operation.kind { neutral.requests() } else { None }
    }

    /// Finds the primary. Refuses credentials that no server accepts.
    async fn verify(&self) -> Result<(), PlanError> {
        match self.nodes.discover().await {
            Err(failure) if error::is_refusal(&failure) => Err(PlanError::target(failure.message)),
            _ => Ok(()),
        }
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.nodes.topology.hosts()
    }

    /// Returns the hosts that are unreachable now, each with the reason.
    fn unreachable(&self) -> Vec<(String, String)> {
        self.nodes.roles().missing.clone()
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        Connection {
            client,
            connections: Vec::new(),
            deadline: Deadline::default(),
            buffers: Buffers::default(),
            memory: Memory::default(),
            shown: None,
        }
    }

    execute_with_memory!();
}

impl Postgres {
    /// Finds the primary if it is unknown, then sends the request. Starts a background refresh if the roles may be out
    /// of date. `only` selects documents of a bulk request by index.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        let limit = Limit::starting_now(operation.timeout);
        if !self.nodes.is_known() {
            match limit.within(self.nodes.discover()).await {
                Some(Ok(())) => {}
                Some(Err(failure)) => return Reply::unsent(failure),
                None => return Reply::unsent(limit.missed()),
            }
        }
        if self.nodes.claim() {
            let nodes = self.nodes.clone();
            // The next client in doubt asks again.
            reactor::spawn(async move { drop(nodes.discover().await) });
        }
        let execution = Execution { nodes: &self.nodes, operation, limit };
        match execution.ask(connection, values, values.draw.k, only).await {
            Ok(reply) => reply,
            Err((failure, node)) => Reply { node, ..Reply::unsent(failure) },
        }
    }
}
