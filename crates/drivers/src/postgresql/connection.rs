//! One connection to one server, with its prepared statements. The waiting client drives it.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::reactor;
use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls, Statement};

use super::error::request;
use super::read_from::ReadFrom;
use super::stream::connect;
use crate::net::connect_options::{User, user};
use crate::net::deadline::Limit;
use crate::net::marks::{Marked, Marks};
use crate::net::route::element;
use crate::net::target_node::Host;
use crate::net::tls::Tls;
use crate::net::wire::Wire;

/// The database of all collections.
const DATABASE: &str = "loadframe";
/// The default user.
const USER: &str = "postgres";
/// The protocol's ALPN name; from version 17 on, servers require it if the client offers any.
const ALPN: &str = "postgresql";
/// How long to wait for the server to cancel a request.
const CANCELLING: Duration = Duration::from_secs(2);
/// Largest number of simultaneous logins over all clients. A login costs both sides milliseconds of CPU time. After an
/// outage, hundreds of simultaneous logins would each exceed the timeout, again and again.
const LOGINS: usize = 16;
/// Largest number of simultaneous connections that cancel requests.
const CANCELS: usize = 4;

/// Options for connections to servers.
pub struct ConnectOptions {
    /// `None`: unencrypted.
    tls: Option<Tls>,
    user: Option<User>,
    logins: Semaphore,
    cancels: Arc<Semaphore>,
    /// The default timeout of an operation.
    pub timeout: Duration,
    /// The default choice of servers to read from.
    pub read_from: ReadFrom,
}

/// A connection to one server.
pub struct NodeConnection {
    /// The client that sends requests.
    pub client: Client,
    driven: Driven,
    /// Byte counts and times of the connection.
    pub marks: Arc<Marks>,
    /// Prepared statements by operation number, then by a key within the operation.
    statements: Vec<HashMap<Box<[u8]>, Statement>>,
}

/// The library's connection, which does the I/O while it is polled.
type Driven = Pin<Box<tokio_postgres::Connection<Marked<Wire>, tokio_postgres::tls::NoTlsStream>>>;

impl ConnectOptions {
    /// Reads certificates, the user and the choice of servers to read from. Refuses credentials that the protocol does
    /// not support, unusable certificates and compression.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        let read_from =
            target.read_from.as_ref().map_or(Ok(ReadFrom::Primary), |word| ReadFrom::parse(&word.as_str().into()))?;
        let tls = target.tls.as_ref().map(|tls| Tls::new(tls, Some(ALPN))).transpose()?;
        Ok(Self { tls, user: user(target)?, timeout: target.timeout, read_from, ..Self::default() })
    }

    /// Returns options without encryption and credentials.
    #[cfg(test)]
    pub fn plain(read_from: ReadFrom) -> Self {
        Self { read_from, ..Self::default() }
    }

    /// Returns options without encryption and credentials, for reading from the primary, with a timeout of 9 s.
    fn default() -> Self {
        Self {
            tls: None,
            user: None,
            logins: Semaphore::new(LOGINS),
            cancels: Arc::new(Semaphore::new(CANCELS)),
            timeout: Duration::from_secs(9),
            read_from: ReadFrom::Primary,
        }
    }

    /// Returns the library's settings: the database, and the user with a password, or the default user without one. TLS is
    /// off: the caller encrypts the stream.
    fn config(&self) -> Config {
        let mut config = Config::new();
        config.dbname(DATABASE).application_name("loadframe").ssl_mode(SslMode::Disable).user(USER);
        if let Some((user, password)) = &self.user {
            config.user(user).password(password.expose());
        }
        config
    }
}

impl fmt::Debug for ConnectOptions {
    /// Writes the timeout and the user's name; the password is hidden.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("timeout", &self.timeout)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl NodeConnection {
    /// Connects and logs in, once fewer than 16 logins are in progress, within `limit`.
    /// `reach` limits the wait for a server that is silent. Fails if the server is unreachable or refuses the user.
    pub async fn open(
        host: &Host,
        connect_options: &ConnectOptions,
        limit: Limit,
        reach: Option<Duration>,
    ) -> Result<Self, Failure> {
        let Some(_turn) = limit.within(connect_options.logins.acquire()).await else { return Err(limit.missed()) };
        let connecting = reach.map_or(limit, |reach| Limit::starting_now(reach.min(limit.timeout)));
        let wire = connect(host, connect_options.tls.as_ref(), connecting).await?;
        let marks = Arc::new(Marks::default());
        let config = connect_options.config();
        let login = config.connect_raw(Marked::new(wire, marks.clone()), NoTls);
        match limit.within(login).await {
            Some(Ok((client, connection))) => {
                Ok(Self { client, driven: Box::pin(connection), marks, statements: Vec::new() })
            }
            Some(Err(error)) => Err(refused(&error)),
            None => Err(limit.missed()),
        }
    }

    /// Processes received messages, and returns whether the connection appears usable. Does not block.
    pub fn is_open(&mut self) -> bool {
        self.driven.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Returns the statement that `prepare` kept for operation number `operation` and `key`, or `None`.
    pub fn prepared(&self, operation: usize, key: &[u8]) -> Option<Statement> {
        self.statements.get(operation)?.get(key).cloned()
    }

    /// Prepares the operation's statement for `key` from its `text`, and keeps it for `prepared`. Fails if it is
    /// invalid. Sets no time limit.
    pub async fn prepare(&mut self, operation: usize, key: &[u8], text: &str) -> Result<Statement, Failure> {
        let statement = drive(&mut self.driven, self.client.prepare(text)).await.map_err(|broken| broken.failure())?;
        element(&mut self.statements, operation).insert(key.into(), statement.clone());
        Ok(statement)
    }

    /// Runs the request that `ask` sends, and returns its result. Sets no time limit. Fails with an error of the server
    /// or the connection.
    pub async fn run<'a, T, F>(&'a mut self, ask: impl FnOnce(&'a Client) -> F) -> Result<T, Broken>
    where
        F: Future<Output = Result<T, Error>>,
    {
        drive(&mut self.driven, ask(&self.client)).await
    }

    /// Closes the connection in the middle of a request. Cancels the request on the server in the background, within 2
    /// s.
    pub fn abandon(self, host: Host, connect_options: &ConnectOptions) {
        let (token, tls): (CancelToken, Option<Tls>) = (self.client.cancel_token(), connect_options.tls.clone());
        let cancels = connect_options.cancels.clone();
        reactor::spawn(async move {
            let limit = Limit::starting_now(CANCELLING);
            let Some(_turn) = limit.within(cancels.acquire()).await else { return };
            if let Ok(wire) = connect(&host, tls.as_ref(), limit).await {
                // The server does not reply to a cancel request; it closes the connection.
                limit.within(token.cancel_query_raw(wire, NoTls)).await;
            }
        });
    }
}

/// A request without a result.
#[derive(Debug)]
pub enum Broken {
    /// An error of the server or the connection.
    Error(Error),
    /// The server has closed the connection.
    Closed,
}

impl Broken {
    /// Returns the engine's failure for it, of class Connect if the server has closed the connection.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Error(error) => request(error),
            Self::Closed => Failure::new(ErrorClass::Connect, "the server closed the connection"),
        }
    }
}

/// Waits for an answer and drives the connection's I/O meanwhile; no other task does. Fails with an error of the server
/// or the connection.
async fn drive<T>(driven: &mut Driven, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Broken> {
    let mut answer = pin!(answer);
    poll_fn(|cx| {
        // Polling the answer hands the request to the connection, which then sends it.
        if let Poll::Ready(outcome) = answer.as_mut().poll(cx) {
            return Poll::Ready(outcome.map_err(Broken::Error));
        }
        let over = driven.as_mut().poll(cx);
        if let Poll::Ready(outcome) = answer.as_mut().poll(cx) {
            return Poll::Ready(outcome.map_err(Broken::Error));
        }
        over.map(|end| Err(end.map_or_else(Broken::Error, |()| Broken::Closed)))
    })
    .await
}

/// Returns the failure of a login, with advice if the database or the password is missing.
fn refused(error: &Error) -> Failure {
    let told = request(error);
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("3D000") => {
            Failure::new(ErrorClass::Client, format!("{}; create it: CREATE DATABASE {DATABASE}", told.message))
        }
        Some(_) => told,
        None if told.message.contains("password") => {
            Failure::new(ErrorClass::Client, "the server wants a password: give --user and --password-file")
        }
        None => told,
    }
}
