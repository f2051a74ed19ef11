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

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let nodes = PostgresNodes::new(&target.hosts, target.spread, ConnectOptions::new(target)?)?;
        Ok(Self { nodes: Arc::new(nodes), operations: AtomicUsize::new(0) })
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

    /// Finds the primary. Fails if no server answers and one refuses the credentials; ignores unreachable servers.
    async fn verify(&self) -> Result<(), PlanError> {
        match self.nodes.discover().await {
            Err(failure) if error::is_refusal(&failure) => Err(PlanError::target(failure.message)),
            _ => Ok(()),
        }
    }

    /// Changes the target's hosts while load runs. Blocks while it resolves their names. Refuses an empty list, duplicates,
    /// and hosts that cannot be resolved, and then changes nothing.
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
    /// Finds the primary if it is unknown, then sends the request.
    /// `only`: indices of the documents of a bulk request, `None` for all. Starts a background refresh if the roles may
    /// be out of date.
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
        if let Some(refresh) = self.nodes.claim() {
            let nodes = self.nodes.clone();
            // The next client in doubt asks again.
            reactor::spawn(async move {
                drop(nodes.discover().await);
                refresh.end();
            });
        }
        let execution = Execution { nodes: &self.nodes, operation, limit };
        match execution.ask(connection, values, values.draw.k, only).await {
            Ok(reply) => reply,
            Err((failure, node)) => Reply { node, ..Reply::unsent(failure) },
        }
    }
}

#[cfg(test)]
mod tests {
    use loadframe_engine::driver::ErrorClass;
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::Variables;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    /// Serves one connection of the simple protocol. Sends the text of each query to `seen`. Cancels `pg_sleep`, as a
    /// server with a `statement_timeout` does.
    async fn serve(mut stream: TcpStream, seen: UnboundedSender<String>) -> std::io::Result<()> {
        let length = stream.read_u32().await? as usize;
        stream.read_exact(&mut vec![0; length - 4]).await?;
        stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
        while stream.read_u8().await? == b'Q' {
            let mut body = vec![0; stream.read_u32().await? as usize - 4];
            stream.read_exact(&mut body).await?;
            let text = String::from_utf8_lossy(&body).trim_end_matches('\0').to_owned();
            let answer: &[u8] = match text.contains("pg_sleep") {
                true => b"E\0\0\0\x20SERROR\0VERROR\0C57014\0Mlate\0\0Z\0\0\0\x05E",
                false => b"C\0\0\0\x07OK\0Z\0\0\0\x05I",
            };
            let _ = seen.send(text);
            stream.write_all(answer).await?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_transaction_that_the_server_cancels_is_rolled_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (seen, mut texts) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone()));
            }
        });
        let target = json!({"driver": "postgresql", "hosts": [host], "timeout": 60});
        let driver = Postgres::new(&serde_json::from_value(target).unwrap()).unwrap();
        driver.verify().await.unwrap();
        let context = Context { variables: Variables::default(), corpora: Corpora::default() };
        let form = json!({"sql": {"transaction": [{"statement": "SELECT pg_sleep(9)"}], "protocol": "simple"}});
        let operation = driver.map(&form, &context).unwrap();
        let mut connection = driver.connection(0);
        for k in 0..2 {
            let reply = driver.execute(&mut connection, &operation, &context, &Draw::new(1, 1, k), None).await;
            assert_eq!(reply.outcome.unwrap_err().class, ErrorClass::Timeout);
        }
        let mut queries = Vec::new();
        while let Ok(text) = texts.try_recv() {
            queries.extend(Some(text).filter(|text| !text.contains("pg_is_in_recovery")));
        }
        assert_eq!(queries, ["BEGIN", "SELECT pg_sleep(9)", "ROLLBACK"].repeat(2));
    }
}
