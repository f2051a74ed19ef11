//! One session for each worker thread: its connections, the statements that were prepared on it, what it knows of
//! tables.
//!
//! The library's tasks live on the runtime that the session was opened on, so a thread never waits for another.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::access::Secret;
use loadframe_engine::recording::reconnects;
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::NewSessionError;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::response::query_result::QueryResult;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::{Mutex, OnceCell};
use tokio_rustls::rustls::ClientConfig;
use uuid::Uuid;

use super::error;
use super::error::failure;
use super::nodes::CqlNodes;
use super::routing::{Noting, noted};
use super::row::Row;
use super::table::{KEYSPACE, Table, TableName};
use crate::net::deadline::{Deadline, Limit};
use crate::net::exchange::Exchanged;
use crate::net::marks::Setup;

/// How often each connection is checked. The library gives up a connection only when a check is not answered in time,
/// and never for requests that are not: with its own 30 s a cut link would look like a store that is down for a minute.
const CHECK: Duration = Duration::from_secs(2);

/// How long a session may take to open that replaces one without connections, and the pause between two attempts. The
/// library waits up to 10 s between its own attempts after a long outage, and has no stable setting for that.
const REOPENING: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);

/// How sessions are opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user's name and password.
    pub user: Option<(String, Secret)>,
    /// TLS, if the nodes are asked by it.
    pub tls: Option<Arc<ClientConfig>>,
    /// Which keyspaces the load is about; all if it is empty.
    pub keyspaces: BTreeSet<String>,
}

/// How a statement is executed.
#[derive(Clone, Copy, Debug)]
pub struct StatementOptions {
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// How many replicas have to agree.
    pub consistency: Consistency,
}

/// A statement that is prepared once, by the first client that needs it.
type Preparing = Rc<OnceCell<Rc<PreparedStatement>>>;

/// What a thread holds.
#[derive(Default)]
pub struct Thread {
    session: RefCell<Option<Rc<Session>>>,
    /// Held by the client that opens a session.
    opening: Mutex<()>,
    /// Until when no other attempt is made to replace the session.
    pause: Cell<Option<Limit>>,
    /// A request has failed since all nodes were seen to be connected.
    doubted: Cell<bool>,
    /// The nodes that had no connection when they were last looked at.
    down: RefCell<Vec<Uuid>>,
    /// By operation, then by the names of the columns, which may be drawn.
    prepared: RefCell<Vec<HashMap<Box<[u8]>, Preparing>>>,
    tables: RefCell<HashMap<TableName, Rc<Table>>>,
    places: RefCell<Vec<(Uuid, u16)>>,
}

/// The outcome of one statement.
pub struct Executed {
    /// Right before it was handed to the library.
    pub sent: Instant,
    /// Right after the answer was there.
    pub done: Instant,
    /// The answer.
    pub answer: Result<QueryResult, Failure>,
    /// Which host served it.
    pub node: u16,
}

/// Opens a session within `patience`, which is also how long the check of a connection may take, if it is not shorter
/// than the time between checks: all requests on the connection fail with it.
pub async fn open(
    contacts: &[SocketAddr],
    settings: &Settings,
    patience: Duration,
) -> Result<Session, NewSessionError> {
    // Who tries again is the engine's to decide, and a request that is sent twice is two requests.
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(Noting::token_aware())
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        // A timer for each request costs more than a deadline that moves along.
        .request_timeout(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes_addr(contacts)
        .default_execution_profile_handle(profile.into_handle())
        .pool_size(PoolSize::PerShard(std::num::NonZeroUsize::MIN))
        .compression(None)
        // A delay before each write is time that the store did not take. Requests that are due together are written
        // together without it, since clients and writer share a thread.
        .write_coalescing(false)
        .connection_timeout(patience)
        .keepalive_interval(CHECK)
        .keepalive_timeout(patience.max(CHECK))
        .keyspaces_to_fetch(&settings.keyspaces)
        .tls_context(settings.tls.clone())
        .driver_config_reporting(false);
    if let Some((user, password)) = &settings.user {
        builder = builder.user(user, password.expose());
    }
    let session = builder.build().await?;
    if session.get_cluster_state().get_keyspace(KEYSPACE).is_some() {
        session.use_keyspace(KEYSPACE, false).await.map_err(NewSessionError::UseKeyspaceError)?;
    }
    Ok(session)
}

impl Thread {
    /// The session, which is opened when it is first asked for, and replaced when none of its nodes is connected.
    pub async fn session(&self, nodes: &CqlNodes, settings: &Settings, limit: Limit) -> Result<Rc<Session>, Failure> {
        if let Some(session) = self.current() {
            return Ok(self.replaced(session, nodes, settings, limit).await);
        }
        let late = || failure(ErrorClass::Connect, format!("no session within {} s", limit.timeout.as_secs_f64()));
        let _one = limit.within(self.opening.lock()).await.ok_or_else(late)?;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let contacts = nodes.contacts();
        let setup = Setup::begin();
        let opened = limit.within(open(&contacts, settings, limit.timeout)).await.ok_or_else(late)?;
        let session = Rc::new(opened.map_err(|error| error::session(&error))?);
        setup.finish();
        *self.session.borrow_mut() = Some(session.clone());
        Ok(session)
    }

    fn current(&self) -> Option<Rc<Session>> {
        self.session.borrow().clone()
    }

    /// Returns the session, or another in its place if none of its nodes is connected and the other can be opened. One
    /// client opens it; the others keep the old one meanwhile, which may recover by itself.
    async fn replaced(&self, session: Rc<Session>, nodes: &CqlNodes, settings: &Settings, limit: Limit) -> Rc<Session> {
        if !self.doubted.get()
            || self.is_connected(&session)
            || self.pause.get().is_some_and(|limit| !limit.has_passed())
        {
            return session;
        }
        let Ok(_one) = self.opening.try_lock() else { return session };
        let contacts = nodes.contacts();
        let setup = Setup::begin();
        let opened = limit.at_most(REOPENING).within(open(&contacts, settings, limit.timeout)).await;
        self.pause.set(Some(Limit::starting_now(PAUSE)));
        let Some(Ok(other)) = opened else { return session };
        setup.finish();
        let other = Rc::new(other);
        self.prepared.borrow_mut().clear();
        self.tables.borrow_mut().clear();
        self.is_connected(&other);
        *self.session.borrow_mut() = Some(other.clone());
        other
    }

    /// Whether any node is connected. Counts each node whose connections were lost and are there again as a reconnect.
    fn is_connected(&self, session: &Session) -> bool {
        let state = session.get_cluster_state();
        let mut down = self.down.borrow_mut();
        let mut connected = 0;
        for node in state.get_nodes_info() {
            let is_connected = node.is_connected();
            connected += usize::from(is_connected);
            match down.iter().position(|id| *id == node.host_id) {
                Some(place) if is_connected => {
                    down.swap_remove(place);
                    reconnects::opened();
                }
                None if !is_connected => {
                    down.push(node.host_id);
                    reconnects::lost();
                }
                _ => {}
            }
        }
        self.doubted.set(connected < state.get_nodes_info().len());
        connected > 0
    }

    /// What is known of a table; the session has to be open.
    pub async fn table(&self, session: &Session, name: &TableName) -> Result<Rc<Table>, Failure> {
        if let Some(table) = self.tables.borrow().get(name) {
            return Ok(table.clone());
        }
        let mut table = Table::find(&session.get_cluster_state(), name);
        if table.is_err() {
            // It may be younger than what the session has read.
            session.refresh_metadata().await.map_err(|error| failure(ErrorClass::Connect, error.to_string()))?;
            table = Table::find(&session.get_cluster_state(), name);
        }
        let table = Rc::new(table?);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        Ok(table)
    }

    /// The statement of an operation for those columns; `text` writes it the first time, for which there is `limit`.
    pub async fn prepared(
        &self,
        session: &Session,
        operation: usize,
        names: &[u8],
        (statement_options, limit): (StatementOptions, Limit),
        text: impl FnOnce() -> String,
    ) -> Result<Rc<PreparedStatement>, Failure> {
        let slot = {
            let mut prepared = self.prepared.borrow_mut();
            if prepared.len() <= operation {
                prepared.resize_with(operation + 1, HashMap::new);
            }
            match prepared[operation].get(names) {
                Some(slot) => slot.clone(),
                None => prepared[operation].entry(names.into()).or_default().clone(),
            }
        };
        let prepared =
            slot.get_or_try_init(async || prepare(session, text(), statement_options, limit).await.map(Rc::new)).await;
        self.doubt(prepared.as_ref().err());
        prepared.cloned()
    }

    /// Executes a statement within the `deadline` of its client.
    pub async fn execute(
        &self,
        session: &Session,
        nodes: &CqlNodes,
        (statement, row): (&PreparedStatement, &Row),
        limit: Limit,
        deadline: &mut Deadline,
    ) -> Executed {
        let execution = deadline.within(limit.due, session.execute_unpaged(statement, row));
        let (Exchanged { sent, done, .. }, (answer, picked)) = Exchanged::around(noted(execution)).await;
        let served = match &answer {
            Some(Ok(answer)) => Some(answer.request_coordinator().node().host_id),
            _ => picked,
        };
        let answer = match answer {
            Some(answer) => answer.map_err(|error| error::execution(&error)),
            None => Err(limit.missed()),
        };
        self.doubt(answer.as_ref().err());
        let node = served.map_or(0, |id| self.place(session, nodes, id));
        Executed { sent, done, answer, node }
    }

    /// Has the next request look whether nodes are connected, if this one failed for that reason.
    fn doubt(&self, failure: Option<&Failure>) {
        if failure.is_some_and(|failure| matches!(failure.class, ErrorClass::Connect | ErrorClass::Timeout)) {
            self.doubted.set(true);
        }
    }

    fn place(&self, session: &Session, nodes: &CqlNodes, id: Uuid) -> u16 {
        if let Some((_, place)) = self.places.borrow().iter().find(|(known, _)| *known == id) {
            return *place;
        }
        let state = session.get_cluster_state();
        let Some(node) = state.get_node_by_host_id(id) else { return 0 };
        let place = nodes.place(SocketAddr::new(node.address.ip(), node.address.port()));
        self.places.borrow_mut().push((id, place));
        place
    }
}

/// Has a node prepare a statement.
pub async fn prepare(
    session: &Session,
    text: String,
    statement_options: StatementOptions,
    limit: Limit,
) -> Result<PreparedStatement, Failure> {
    let late = || failure(ErrorClass::Timeout, "the statement was not prepared in time");
    let asked = limit.within(session.prepare(text)).await.ok_or_else(late)?;
    let mut statement = asked.map_err(|error| error::preparation(&error))?;
    statement.set_consistency(statement_options.consistency);
    Ok(statement)
}
