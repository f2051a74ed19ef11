//! Redis and Valkey driver, for single servers and clusters. Each client sends one request at a time, directly to the
//! node of its key.
//!
//! A node that does not serve a key redirects to the node that does, and the driver follows. The redirection is the
//! store's work, so it is part of the service time. A connection to the other node, which it may need, is not.

mod answer;
mod bulk;
mod captured;
mod collection;
mod connection;
mod error;
mod execute;
mod nodes;
mod operation;
mod request;
mod resp;
mod script;
mod slots;

use std::sync::Arc;

use loadframe_engine::driver::{Context, Driver, Exchange, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::reactor;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::Value;

use self::execute::ConnectionSet;
use self::nodes::{Mode, RedisNodes};
pub use self::operation::Operation;
use self::operation::{Buffers, Kind};
use self::resp::{Item, Reader};
use crate::capture::{Memory, execute_with_memory};
use crate::crud::{Action, Neutral};
use crate::exchanges::read_modify_write;
use crate::net::assignment::Assignment;
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::topology::Topology;

/// The driver of one target.
#[derive(Debug)]
pub struct Redis {
    nodes: Arc<RedisNodes>,
}

/// The state of one client.
pub struct Connection {
    connections: ConnectionSet,
    buffers: Buffers,
    memory: Memory,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Redis {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let connect_options = ConnectOptions::new(target)?;
        let topology = Topology::new(&target.hosts, target.spread, connect_options.tls.clone())?;
        Ok(Self { nodes: Arc::new(RedisNodes::new(Arc::new(topology), connect_options)) })
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
        Operation::map(form, context, &self.nodes.collections, self.nodes.connect_options.timeout)
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.parts() } else { &[] }
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.requests() } else { None }
    }

    /// Detects the kind of target. Fails if a node refuses the credentials; ignores unreachable nodes.
    async fn verify(&self) -> Result<(), PlanError> {
        DiscoveryError::refusal(self.nodes.discover(Limit::starting_now(self.nodes.connect_options.timeout)).await)
    }

    /// Changes the target's hosts while load runs. Refuses hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.nodes.hosts()
    }

    /// Returns the hosts that this worker's clients choose from. In a cluster, the key determines the node. `None`
    /// unless the spread is fixed.
    fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        let nodes = self.nodes.clone();
        self.nodes.topology.choice(worker, workers, move || nodes.mode() != Mode::Cluster)
    }

    /// Switches a client to a node from its next request on. `keep`: connections to other nodes stay open.
    fn turn_to(&self, connection: &mut Connection, node: u16, keep: bool) {
        connection.connections.turn_to(node, keep);
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, client: u64) -> Connection {
        let connections = ConnectionSet::new(Assignment::new(self.nodes.topology.clone(), client));
        Connection { connections, buffers: Buffers::default(), memory: Memory::default(), shown: None }
    }

    execute_with_memory!();

    /// Returns the command of request `draw` as text without sending it; `None` for a bulk request. Captured values are
    /// empty.
    fn render(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        context: &Context,
        draw: &Draw,
    ) -> Option<String> {
        let values = Values { variables: &context.variables, draw, captured: &Captured::NONE };
        let buffers = &mut connection.buffers;
        buffers.request.clear();
        match &operation.kind {
            Kind::Neutral(neutral, collection) => buffers.verb(neutral, collection, &values)?,
            Kind::Command(command) => command.write(&values, buffers).unwrap_or(0),
        };
        Some(words(&buffers.request))
    }
}

impl Redis {
    /// Detects the kind of target if it is unknown, then executes an operation.
    /// `only`: indices of the documents of a bulk request, `None` for all. Starts a background refresh if the slots may
    /// be out of date.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        let nodes = &self.nodes;
        let limit = Limit::starting_now(operation.timeout);
        if nodes.mode() == Mode::Unknown
            && let Err(error) = nodes.discover(limit).await
        {
            return Reply::unsent(error.into());
        }
        if let Some(refresh) = nodes.claim() {
            let nodes = nodes.clone();
            reactor::spawn(async move {
                if nodes.mode() == Mode::Cluster
                    && nodes.discover(Limit::starting_now(nodes.connect_options.timeout)).await.is_err()
                {
                    nodes.doubt();
                }
                refresh.end();
            });
        }
        let Connection { connections, buffers, memory, shown } = connection;
        buffers.request.clear();
        let slot = match &operation.kind {
            Kind::Neutral(Neutral::Bulk(bulk), collection) => {
                return bulk::ask(connections, nodes, (bulk, only), collection, buffers, values.draw, limit).await;
            }
            Kind::Neutral(Neutral::Scan(_), collection) if !collection.indexed() => {
                let message = if nodes.mode() == Mode::Cluster {
                    "a cluster keeps no order of ids over its nodes: scans are for single servers"
                } else {
                    "the collection keeps no index of its ids: define it with redis: {index: true}"
                };
                return Reply::unsent(error::client(message));
            }
            Kind::Neutral(neutral, collection) => buffers.verb(neutral, collection, values),
            Kind::Command(command) => command.write(values, buffers),
        };
        let (asked, outcome) = connections.ask(nodes, &buffers.request, slot, values.draw.turn, limit).await;
        if let Some(shown) = shown {
            shown.request = words(&buffers.request);
            if outcome.is_ok() && connections.is_answered(&asked) {
                shown.answer = answer::shown(operation, connections.answer(&asked), values);
            }
        }
        let judged = outcome.and_then(|()| answer::judge(operation, connections.answer(&asked), values, memory));
        let reply = asked.exchanged.judged(asked.node, judged);
        let Kind::Neutral(Neutral::ReadModifyWrite(write), collection) = &operation.kind else { return reply };
        read_modify_write(reply, async || {
            buffers.request.clear();
            let slot = buffers.write(Action::Update, write, collection, values);
            let (written, outcome) =
                connections.ask(nodes, &buffers.request, Some(slot), values.draw.turn, limit).await;
            let judged = outcome.and_then(|()| answer::changed(connections.answer(&written)));
            written.exchanged.judged(written.node, judged.map(|()| 1))
        })
        .await
    }
}

/// Formats an encoded command as a user would type it: words separated by spaces, quoted where necessary.
fn words(request: &[u8]) -> String {
    let mut reader = Reader::new(request);
    let mut words = Vec::new();
    while let Some(item) = reader.next() {
        if let Item::Bulk(word) = item {
            let word = String::from_utf8_lossy(word);
            let plain = !word.is_empty() && !word.contains([' ', '"', '\\', '\n']);
            words.push(if plain { word.into_owned() } else { format!("{word:?}") });
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, Instant};

    use loadframe_engine::driver::{ErrorClass, NO_NODE};
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::Variables;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_cluster_without_slots_fails_each_request_with_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut piece = [0; 1024];
                    while let Ok(1..) = stream.read(&mut piece).await {
                        if stream.write_all(b"*0\r\n").await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let target = json!({"driver": "redis", "hosts": [host], "timeout": 10});
        let driver = Redis::new(&serde_json::from_value(target).unwrap()).unwrap();
        driver.verify().await.unwrap();
        let corpora = BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 10}))]);
        let context = Context { variables: Variables::default(), corpora: Corpora::open(&corpora, 1).unwrap() };
        for form in [
            json!({"command": ["GET", "a"]}),
            json!({"command": ["DBSIZE"]}),
            json!({"bulk": {"collection": "c", "corpus": "trips", "size": 5}}),
        ] {
            let operation = driver.map(&form, &context).unwrap();
            let mut connection = driver.connection(0);
            let draw = Draw::new(1, 1, 0);
            let reply = driver.execute(&mut connection, &operation, &context, &draw, None).await;
            assert_eq!(reply.node, NO_NODE);
            let failure = reply.outcome.unwrap_err();
            assert!(matches!(failure.class, ErrorClass::Server | ErrorClass::Item), "{failure:?}");
            assert!(failure.message.contains("no node of the cluster serves slot"), "{failure:?}");
        }
        server.abort();
    }

    /// Answers each piece that a connection reads, until the test ends.
    fn serve(listener: TcpListener, answer: impl Fn(&str) -> String + Clone + Send + 'static) {
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut piece = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut piece).await {
                        let piece = String::from_utf8_lossy(&piece[..count]);
                        if piece.contains("AUTH") {
                            tokio::time::sleep(LOGIN).await;
                        }
                        if stream.write_all(answer(&piece).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }

    /// How long a server of `serve` takes for a login.
    const LOGIN: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_login_at_the_new_node_of_moved_documents_is_no_service_time() {
        let [old, new] =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let [host, moved] = [&old, &new].map(|listener| listener.local_addr().unwrap());
        serve(new, |piece| if piece.contains("AUTH") { "+OK\r\n" } else { ":1\r\n" }.to_owned());
        serve(old, move |piece| match piece {
            _ if piece.contains("AUTH") => "+OK\r\n".to_owned(),
            _ if piece.contains("SLOTS") => {
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{}\r\n", host.port())
            }
            _ => format!("-MOVED 1 {moved}\r\n"),
        });
        let auth = json!({"basic": {"user": "ann", "password": "hush"}});
        let target = json!({"driver": "redis", "hosts": [host.to_string()], "timeout": 60, "auth": auth});
        let driver = Redis::new(&serde_json::from_value(target).unwrap()).unwrap();
        driver.verify().await.unwrap();
        let corpora = BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 1}))]);
        let context = Context { variables: Variables::default(), corpora: Corpora::open(&corpora, 1).unwrap() };
        let form = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 1}});
        let operation = driver.map(&form, &context).unwrap();
        let begun = Instant::now();
        let reply = driver.execute(&mut driver.connection(0), &operation, &context, &Draw::new(1, 1, 0), None).await;
        reply.outcome.unwrap();
        assert_eq!(reply.documents, 1);
        assert!(reply.sent >= begun + 2 * LOGIN, "after the first login, and later by the second");
    }
}
