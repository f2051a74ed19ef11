//! The protocol of Cassandra and ScyllaDB: prepared statements, sent to a node that holds the data.
//!
//! Each worker thread has a [session](session) with one connection to every node (every shard, where nodes have
//! shards). The library follows the cluster's nodes by itself.

mod answer;
mod asking;
mod bulk;
mod days;
mod failure;
mod instant;
mod nodes;
mod operation;
mod routing;
mod row;
mod session;
mod statement;
mod table;
mod taking_in;
mod tls;
mod value;
mod verbs;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loadframe_engine::access::{Auth, Secret};
use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Context, Driver, Exchange, Failure, Reply};
use loadframe_engine::event::Batch;
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::variables::{Captured, Values};
use scylla::errors::{ConnectionError, ConnectionPoolError, MetadataError, NewSessionError};
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;

use self::asking::Asking;
use self::nodes::CqlNodes;
use self::operation::Kind;
pub use self::operation::Operation;
use self::session::{Settings, Thread};
use self::statement::Buffers;
use crate::buckets::{Buckets, PARTS};
use crate::capture::Memory;
use crate::generations::Register;
use crate::net::deadline::{Deadline, Limit};
use crate::net::per_thread::PerThread;
use crate::take_in;

/// How long to wait for a node before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// The driver of one target.
pub struct Cql {
    nodes: Arc<CqlNodes>,
    user: Option<(String, Secret)>,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    threads: PerThread<Thread>,
    /// The days of tables that events are taken into.
    buckets: Register<Buckets>,
    /// How many operations were mapped.
    operations: AtomicUsize,
    /// The keyspaces of the neutral operations; `None` once a native one may be about any.
    keyspaces: Mutex<Option<BTreeSet<String>>>,
}

/// The state of one client.
#[derive(Debug, Default)]
pub struct Connection {
    buffers: Buffers,
    deadline: Deadline,
    memory: Memory,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Cql {
    type Operation = Operation;
    const CAPTURES: bool = true;
    type Connection = Connection;

    fn new(target: &Target) -> Result<Self, PlanError> {
        if target.compress {
            return Err(PlanError::new("this protocol's requests are not compressed here"));
        }
        let user = match &target.auth {
            None => None,
            Some(Auth::Basic { user, password }) => Some((user.clone(), password.clone())),
            Some(_) => {
                return Err(PlanError::new("this protocol has users with passwords, but no API keys or tokens"));
            }
        };
        let nodes = Arc::new(CqlNodes::default());
        nodes.set(&target.hosts)?;
        let tls = target.tls.as_ref().map(|plan| tls::config(plan, &nodes)).transpose()?;
        Ok(Self {
            nodes,
            user,
            tls,
            timeout: target.timeout,
            threads: PerThread::new(),
            buckets: Register::default(),
            operations: AtomicUsize::new(0),
            keyspaces: Mutex::new(Some(BTreeSet::new())),
        })
    }

    fn map(&self, form: &Value, context: &Context) -> Result<Operation, PlanError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let operation = Operation::map(form, number, context, &self.buckets, self.timeout)?;
        let mut keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        match &operation.kind {
            Kind::Neutral(_, table) | Kind::TakeIn(_, table, _) | Kind::DeleteDays(table, ..) => {
                keyspaces.as_mut().map(|keyspaces| keyspaces.insert(table.keyspace.clone()));
            }
            Kind::Native(_) => *keyspaces = None,
        }
        Ok(operation)
    }

    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        match &operation.kind {
            Kind::Neutral(neutral, _) => neutral.parts(),
            Kind::DeleteDays(..) => &PARTS,
            Kind::Native(_) | Kind::TakeIn(..) => &[],
        }
    }

    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.requests() } else { None }
    }

    /// Refuses credentials that no node takes, and nodes whose certificate does not verify.
    async fn verify(&self) -> Result<(), PlanError> {
        let contacts = self.nodes.contacts();
        let patience = self.timeout.min(PATIENCE);
        match tokio::time::timeout(patience, session::open(&contacts, &self.settings(), patience)).await {
            Ok(Err(error)) if refuses_us(&error) => Err(PlanError::target(failure::session(&error).message)),
            Ok(Err(error)) => refused_tls(&error).map_or(Ok(()), |reason| Err(PlanError::target(reason))),
            _ => Ok(()),
        }
    }

    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.set(hosts)
    }

    fn hosts(&self) -> Vec<String> {
        self.nodes.texts()
    }

    fn connection(&self, _client: u64) -> Connection {
        Connection::default()
    }

    async fn execute(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
        only: Option<&[u32]>,
    ) -> Reply {
        let known = connection.memory.lend();
        let values = Values { variables: &context.variables, draw, captured: &known };
        let reply = self.ask(connection, operation, &values, only).await;
        connection.memory.settle(known, reply.outcome.is_ok());
        reply
    }

    fn takes_in(&self, operation: &Operation) -> bool {
        matches!(operation.kind, Kind::TakeIn(..))
    }

    async fn take_in(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        _context: &Context,
        batch: &Batch,
        only: Option<&[u32]>,
    ) -> Reply {
        let Kind::TakeIn(form, table, days) = &operation.kind else { return take_in::without_source() };
        let form = (form, table, days.as_deref());
        self.asking(operation, async |asking| {
            taking_in::take_in(&asking, form, (batch, only), &mut connection.shown).await
        })
        .await
    }

    fn memory<'a>(&self, connection: &'a mut Connection) -> Option<&'a mut Captured> {
        Some(&mut connection.memory.known)
    }

    fn exchange(connection: &mut Connection) -> Option<&mut Option<Exchange>> {
        Some(&mut connection.shown)
    }
}

impl Cql {
    /// Has `ask` ask on the thread's session, which is opened if it is not.
    async fn asking(
        &self,
        operation: &Operation,
        ask: impl AsyncFnOnce(Asking<'_>) -> Result<Reply, Failure>,
    ) -> Reply {
        let thread = self.threads.get(Thread::default);
        let limit = Limit::starting_now(operation.terms.timeout);
        let session = match thread.session(&self.nodes, &self.settings(), limit).await {
            Ok(session) => session,
            Err(failure) => return Reply::unsent(failure),
        };
        let asking = Asking { nodes: &self.nodes, thread: &thread, session: &session, operation, limit };
        ask(asking).await.unwrap_or_else(Reply::unsent)
    }

    /// Asks with the values that were drawn.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        self.asking(operation, async |asking| asking.ask(connection, values, values.draw.k, only).await).await
    }

    fn settings(&self) -> Settings {
        let keyspaces = self.keyspaces.lock().unwrap_or_else(PoisonError::into_inner);
        Settings { user: self.user.clone(), tls: self.tls.clone(), keyspaces: keyspaces.clone().unwrap_or_default() }
    }
}

/// Whether a node answered and refuses us.
fn refuses_us(error: &NewSessionError) -> bool {
    matches!(connecting(error), Some(ConnectionError::ConnectionSetupRequestError(_)))
}

/// Why there is no TLS with a node, if it is something that trying again does not mend.
fn refused_tls(error: &NewSessionError) -> Option<String> {
    let Some(ConnectionError::IoError(error)) = connecting(error) else { return None };
    crate::net::tls::refusal(error)
}

/// What the last attempt to connect has ended with.
fn connecting(error: &NewSessionError) -> Option<&ConnectionError> {
    let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
        last_connection_error,
    })) = error
    else {
        return None;
    };
    Some(last_connection_error)
}
