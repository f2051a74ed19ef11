//! One session per worker thread: its connections, its prepared statements and its table metadata.
//!
//! The library's tasks run on the runtime that opened the session, so threads never wait for each other.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, NO_NODE};
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
use super::nodes::CqlNodes;
use super::routing::{RecordingPolicy, recorded};
use super::row::Row;
use super::table::{KEYSPACE, Table, TableName};
use crate::net::connect_options::User;
use crate::net::deadline::{Deadline, Limit};
use crate::net::exchange::Exchanged;
use crate::net::marks::Setup;
use crate::net::route::element;
use crate::outcome::Outcome;

/// Interval between keep-alive checks of each connection. The library drops a connection only after a missed check,
/// never after missed requests. Its default of 30 s would make a cut link look like a long store outage.
const CHECK: Duration = Duration::from_secs(2);

/// Time limit for opening a session that replaces a disconnected one. After a long outage the library waits up to 10 s
/// between its own attempts, with no stable setting for it.
const REOPENING: Duration = Duration::from_secs(1);
/// Pause between two attempts to replace a session.
const PAUSE: Duration = Duration::from_millis(200);

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The user's name and password.
    pub user: Option<User>,
    /// TLS configuration, if TLS is on.
    pub tls: Option<Arc<ClientConfig>>,
    /// Keyspaces that the load uses; empty means all.
    pub keyspaces: BTreeSet<String>,
}

/// Execution options of a statement.
#[derive(Clone, Copy, Debug)]
pub struct StatementOptions {
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Consistency level: the number of replicas that must respond.
    pub consistency: Consistency,
}

/// A statement that the first client to need it prepares.
type Preparing = Rc<OnceCell<Rc<PreparedStatement>>>;

/// State of a worker thread.
#[derive(Default)]
pub struct Thread {
    session: RefCell<Option<Rc<Session>>>,
    /// Held by the client that opens a session.
    opening: Mutex<()>,
    /// Earliest time of the next attempt to replace the session.
    pause: Cell<Option<Limit>>,
    /// A request has failed since all nodes were last seen connected.
    doubted: Cell<bool>,
    /// The nodes without a connection at the last check.
    down: RefCell<Vec<Uuid>>,
    /// By operation, then by column names, which may be drawn at random.
    prepared: RefCell<Vec<HashMap<Box<[u8]>, Preparing>>>,
    tables: RefCell<HashMap<TableName, Rc<Table>>>,
    places: RefCell<Vec<(Uuid, u16)>>,
    /// Timers of finished statements, for the next ones.
    deadlines: RefCell<Vec<Deadline>>,
}

/// Opens a session to the cluster of `contacts`, with `patience` as the time limit of each connection attempt.
/// Uses the keyspace `loadframe` if it exists. A keep-alive check may take the longer of `patience` and 2 s: when it
/// fails, all requests on its connection fail.
pub async fn open(
    contacts: &[SocketAddr],
    settings: &Settings,
    patience: Duration,
) -> Result<Session, NewSessionError> {
    // The engine decides on retries, and a request that is sent twice counts as two requests.
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(RecordingPolicy::token_aware())
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        // One timer per request costs more than a reusable deadline.
        .request_timeout(None)
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes_addr(contacts)
        .default_execution_profile_handle(profile.into_handle())
        .pool_size(PoolSize::PerShard(std::num::NonZeroUsize::MIN))
        .compression(None)
        // A write delay would be counted as the store's time. Clients and writer share a thread, so requests that are
        // due together are written together without it.
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
    /// Returns the thread's session. Opens it on first use, and tries to replace it when all its nodes are
    /// disconnected. Waits while another client opens it. Fails with class Connect if it does not open within `limit`.
    pub async fn session(
        &self,
        nodes: &CqlNodes,
        settings: impl Fn() -> Settings,
        limit: Limit,
    ) -> Result<Rc<Session>, Failure> {
        if let Some(session) = self.current() {
            return Ok(self.replaced(session, nodes, settings, limit).await);
        }
        let late = || Failure::new(ErrorClass::Connect, format!("no session within {} s", limit.timeout.as_secs_f64()));
        let _one = limit.within(self.opening.lock()).await.ok_or_else(late)?;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let contacts = nodes.contacts();
        let setup = Setup::begin();
        let opened = limit.within(open(&contacts, &settings(), limit.timeout)).await.ok_or_else(late)?;
        let session = Rc::new(opened.map_err(|error| error::session(&error))?);
        setup.finish();
        *self.session.borrow_mut() = Some(session.clone());
        Ok(session)
    }

    /// Returns the session, if it was opened.
    fn current(&self) -> Option<Rc<Session>> {
        self.session.borrow().clone()
    }

    /// Returns the session, or a new one if no node is connected and a new session opens within 1 s. One client opens
    /// it. The other clients keep the old session meanwhile, which may recover. Then forgets prepared statements and
    /// tables.
    async fn replaced(
        &self,
        session: Rc<Session>,
        nodes: &CqlNodes,
        settings: impl Fn() -> Settings,
        limit: Limit,
    ) -> Rc<Session> {
        if !self.doubted.get()
            || self.is_connected(&session)
            || self.pause.get().is_some_and(|limit| !limit.has_passed())
        {
            return session;
        }
        let Ok(_one) = self.opening.try_lock() else { return session };
        let contacts = nodes.contacts();
        let setup = Setup::begin();
        let opened = limit.at_most(REOPENING).within(open(&contacts, &settings(), limit.timeout)).await;
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

    /// Returns whether any node is connected. Counts nodes lost and reconnected since the last call. Sets `doubted` if
    /// a node is disconnected.
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

    /// Returns a table's metadata from the session, or from the store, within `limit`, if the session lacks it. Fails
    /// if the table does not exist or its key has several columns.
    pub async fn table(&self, session: &Session, name: &TableName, limit: Limit) -> Result<Rc<Table>, Failure> {
        if let Some(table) = self.tables.borrow().get(name) {
            return Ok(table.clone());
        }
        let mut table = Table::find(&session.get_cluster_state(), name);
        if table.is_err() {
            // The table may be newer than the session's metadata.
            let refreshed = limit.within(session.refresh_metadata()).await.ok_or_else(|| limit.missed())?;
            refreshed.map_err(|error| Failure::new(ErrorClass::Connect, error.to_string()))?;
            table = Table::find(&session.get_cluster_state(), name);
        }
        let table = Rc::new(table?);
        self.tables.borrow_mut().insert(name.clone(), table.clone());
        Ok(table)
    }

    /// Returns the prepared statement of operation number `operation` for the column names `names`. On first use,
    /// prepares the statement that `text` returns, within `limit`; after a failure, the next call tries again.
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
            let statements = element(&mut prepared, operation);
            match statements.get(names) {
                Some(slot) => slot.clone(),
                None => statements.entry(names.into()).or_default().clone(),
            }
        };
        let prepared =
            slot.get_or_try_init(async || prepare(session, text(), statement_options, limit).await.map(Rc::new)).await;
        self.doubt(prepared.as_ref().err());
        prepared.cloned()
    }

    /// Executes a statement with the values `row`, within `limit`. The outcome has times, but no bytes.
    /// It has no node if the request was sent to none.
    pub async fn execute(
        &self,
        session: &Session,
        nodes: &CqlNodes,
        (statement, row): (&PreparedStatement, &Row),
        limit: Limit,
    ) -> Outcome<QueryResult> {
        let mut deadline = self.deadlines.borrow_mut().pop().unwrap_or_default();
        let (exchanged, (answer, picked)) = {
            // The library's future takes kilobytes, and each function that takes it by value copies it.
            let execution = pin!(session.execute_unpaged(statement, row));
            Exchanged::around(recorded(deadline.within(limit.due, execution))).await
        };
        self.deadlines.borrow_mut().push(deadline);
        let served = match &answer {
            Some(Ok(answer)) => Some(answer.request_coordinator().node().host_id),
            _ => picked,
        };
        let answer = match answer {
            Some(answer) => answer.map_err(|error| error::execution(&error)),
            None => Err(limit.missed()),
        };
        self.doubt(answer.as_ref().err());
        let node = served.map_or(NO_NODE, |id| self.place(session, nodes, id));
        Outcome { exchanged, node, answer }
    }

    /// Makes the next request check for connected nodes if this request had a `failure` of class Connect or Timeout.
    fn doubt(&self, failure: Option<&Failure>) {
        if failure.is_some_and(|failure| matches!(failure.class, ErrorClass::Connect | ErrorClass::Timeout)) {
            self.doubted.set(true);
        }
    }

    /// Returns the number of the node with this host id, and caches it; a node that `nodes` lacks is added.
    /// [`NO_NODE`] if the session does not know the id.
    fn place(&self, session: &Session, nodes: &CqlNodes, id: Uuid) -> u16 {
        if let Some((_, place)) = self.places.borrow().iter().find(|(known, _)| *known == id) {
            return *place;
        }
        let state = session.get_cluster_state();
        let Some(node) = state.get_node_by_host_id(id) else { return NO_NODE };
        let place = nodes.place(SocketAddr::new(node.address.ip(), node.address.port()));
        self.places.borrow_mut().push((id, place));
        place
    }
}

/// Prepares the statement `text` on the nodes, within `limit`, and sets its consistency level. Fails if it is invalid
/// or late.
pub async fn prepare(
    session: &Session,
    text: String,
    statement_options: StatementOptions,
    limit: Limit,
) -> Result<PreparedStatement, Failure> {
    let late = || Failure::new(ErrorClass::Timeout, "the statement was not prepared in time");
    let asked = limit.within(session.prepare(text)).await.ok_or_else(late)?;
    let mut statement = asked.map_err(|error| error::preparation(&error))?;
    statement.set_consistency(statement_options.consistency);
    Ok(statement)
}
