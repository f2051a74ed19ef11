//! Driver for Cassandra and ScyllaDB: prepared statements, sent to a node that holds the data.
//!
//! Each worker thread has a [session](connection) with one connection to every node (to every shard, for nodes with
//! shards). The library tracks the cluster's nodes.

mod answer;
mod bulk;
mod connection;
mod daily;
mod error;
mod execute;
mod ingest;
mod instant;
mod nodes;
mod operation;
mod request;
mod routing;
mod row;
mod table;
mod tls;
mod value;
mod verbs;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loadframe_engine::driver::{Context, Driver, Exchange, Failure, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::workload::event::Batch;
use loadframe_engine::workload::variables::Values;
use scylla::errors::{ConnectionError, ConnectionPoolError, MetadataError, NewSessionError};
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;

use self::connection::{Settings, Thread};
use self::execute::Execution;
use self::nodes::CqlNodes;
use self::operation::Kind;
pub use self::operation::Operation;
use self::request::Buffers;
use crate::capture::{Memory, execute_with_memory};
use crate::daily::generations::Register;
use crate::daily::{Buckets, PARTS};
use crate::net::connect_options::{User, user};
use crate::net::deadline::Limit;
use crate::net::per_thread::PerThread;

/// Time limit for contacting a node before the load starts.
const PATIENCE: Duration = Duration::from_secs(5);

/// The driver of one target.
pub struct Cql {
    nodes: Arc<CqlNodes>,
    user: Option<User>,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    threads: PerThread<Thread>,
    /// Daily tables of event collections.
    buckets: Register<Buckets>,
    /// Number of parsed operations.
    operations: AtomicUsize,
    /// Keyspaces of the neutral operations; `None` after a native operation, which may use any keyspace.
    keyspaces: Mutex<Option<BTreeSet<String>>>,
}

/// The state of one client.
#[derive(Debug, Default)]
pub struct Connection {
    buffers: Buffers,
    memory: Memory,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Cql {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let nodes = Arc::new(CqlNodes::default());
        nodes.set(&target.hosts)?;
        let tls = target.tls.as_ref().map(|plan| tls::config(plan, &nodes)).transpose()?;
        Ok(Self {
            nodes,
            user: user(target)?,
            tls,
            timeout: target.timeout,
            threads: PerThread::new(),
            buckets: Register::default(),
            operations: AtomicUsize::new(0),
            keyspaces: Mutex::new(Some(BTreeSet::new())),
        })
    }

    /// Returns true: scylla's sessions have tasks on their thread's Tokio runtime.
    fn uses_tokio(&self) -> bool {
        true
    }

    /// Returns true: clients keep captured values.
    fn captures(&self) -> bool {
        true
    }

    /// Maps an operation of the workload, such as `{"read": {...}, "timeout": 5}`. Refuses unsupported ones.
    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let operation = Operation::map(form, number, context, &self.buckets, self.timeout)?;
        let mut keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        match &operation.kind {
            Kind::Neutral(_, table) | Kind::Ingest(_, table, _) | Kind::DeleteDays(table, ..) => {
                keyspaces.as_mut().map(|keyspaces| keyspaces.insert(table.keyspace.clone()));
            }
            Kind::Native(_) => *keyspaces = None,
        }
        Ok(operation)
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        match &operation.kind {
            Kind::Neutral(neutral, _) => neutral.parts(),
            Kind::DeleteDays(..) => &PARTS,
            Kind::Native(_) | Kind::Ingest(..) => &[],
        }
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.requests() } else { None }
    }

    /// Tries to open a session, within 5 s. Fails if a node rejects the credentials or TLS fails permanently; ignores
    /// other failures.
    async fn verify(&self) -> Result<(), PlanError> {
        let contacts = self.nodes.contacts();
        let patience = self.timeout.min(PATIENCE);
        match tokio::time::timeout(patience, connection::open(&contacts, &self.settings(), patience)).await {
            Ok(Err(error)) if refuses_us(&error) => Err(PlanError::target(error::session(&error).message)),
            Ok(Err(error)) => refused_tls(&error).map_or(Ok(()), |reason| Err(PlanError::target(reason))),
            _ => Ok(()),
        }
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.set(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.nodes.texts()
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, _client: u64) -> Connection {
        Connection::default()
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
        let Kind::Ingest(form, table, days) = &operation.kind else { return crate::ingest::without_source() };
        let form = (form, table, days.as_deref());
        self.execution(operation, async |execution| {
            ingest::ingest(&execution, form, (batch, only), &mut connection.shown).await
        })
        .await
    }
}

impl Cql {
    /// Runs `ask` on the thread's session, and opens the session first if necessary. A failure of either becomes the
    /// reply of a request that was not sent.
    async fn execution(
        &self,
        operation: &Operation,
        ask: impl AsyncFnOnce(Execution<'_>) -> Result<Reply, Failure>,
    ) -> Reply {
        let thread = self.threads.get(Thread::default);
        let limit = Limit::starting_now(operation.statement_options.timeout);
        let session = match thread.session(&self.nodes, || self.settings(), limit).await {
            Ok(session) => session,
            Err(failure) => return Reply::unsent(failure),
        };
        let execution = Execution { nodes: &self.nodes, thread: &thread, session: &session, operation, limit };
        ask(execution).await.unwrap_or_else(Reply::unsent)
    }

    /// Executes an operation with drawn values.
    /// `only`: indices of the documents of a bulk request, `None` for all.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        self.execution(operation, async |execution| execution.ask(connection, values, values.draw.k, only).await).await
    }

    /// Returns the settings to open a session with.
    fn settings(&self) -> Settings {
        let keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        Settings { user: self.user.clone(), tls: self.tls.clone(), keyspaces: keyspaces.clone().unwrap_or_default() }
    }
}

/// Returns whether a node answered and refused the connection, such as for a wrong password.
fn refuses_us(error: &NewSessionError) -> bool {
    matches!(connecting(error), Some(ConnectionError::ConnectionSetupRequestError(_)))
}

/// Returns the reason of a permanent TLS failure; `None` for other errors.
fn refused_tls(error: &NewSessionError) -> Option<String> {
    let Some(ConnectionError::IoError(error)) = connecting(error) else { return None };
    crate::net::tls::refusal(error)
}

/// Returns the error of the last connection attempt, or `None` if the session failed for another reason.
fn connecting(error: &NewSessionError) -> Option<&ConnectionError> {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error,
    })) = error
    else {
        return None;
    };
    Some(last_connection_error)
}
