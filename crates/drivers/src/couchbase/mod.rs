//! Couchbase driver: key-value requests go directly to the node that owns the document; statements go over HTTP.
//!
//! Documents are JSON. When a vbucket has moved, its old node rejects the request and the driver resends it to the new
//! node. The service time includes this redirect.

mod answer;
mod bulk;
mod connection;
mod execute;
mod http_service;
mod nodes;
mod operation;
mod packet;
mod statement;
mod subdoc;
mod vbuckets;

use std::sync::Arc;

use loadframe_engine::driver::{Context, Driver, Exchange, Failure, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::reactor;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::{Captured, Values};
use serde_json::Value;

use self::connection::ConnectOptions;
use self::execute::ConnectionSet;
use self::nodes::{Bucket, CouchbaseNodes};
pub use self::operation::Operation;
use self::operation::{Buffers, Kind};
use self::packet::read_request;
use self::statement::Statements;
use crate::capture::{Memory, execute_with_memory};
use crate::crud::{Action, Neutral};
use crate::exchanges::read_modify_write;
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::topology::Topology;

/// The driver of one target.
#[derive(Debug)]
pub struct Couchbase {
    nodes: Arc<CouchbaseNodes>,
}

/// The state of one client.
#[derive(Default)]
pub struct Connection {
    connections: ConnectionSet,
    statements: Statements,
    buffers: Buffers,
    memory: Memory,
    /// Set while requests and answers are recorded for display.
    shown: Option<Exchange>,
}

impl Driver for Couchbase {
    type Operation = Operation;
    type Connection = Connection;

    /// Creates the driver of a target. Resolves its hosts, which blocks; does not connect. Refuses unknown hosts, and
    /// unusable certificates and credentials.
    fn new(target: &Target) -> Result<Self, PlanError> {
        let connect_options = ConnectOptions::new(target)?;
        let topology = Topology::new(&target.hosts, target.spread, connect_options.tls.clone())?;
        Ok(Self { nodes: Arc::new(CouchbaseNodes::new(Arc::new(topology), connect_options)) })
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
        Operation::map(form, context, &self.nodes)
    }

    /// Returns the names of the operation's recorded parts; empty if it has none.
    fn parts(&self, operation: &Operation) -> &'static [&'static str] {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.parts() } else { &[] }
    }

    /// Returns true: some operations can carry a trace context.
    fn has_traces(&self) -> bool {
        true
    }

    /// Returns whether the operation's requests carry a trace context, as a header.
    fn traces(&self, operation: &Operation) -> bool {
        matches!(operation.kind, Kind::Query(_) | Kind::Neutral(Neutral::Scan(_), _))
    }

    /// Returns the number of requests that send each document of the operation's corpus once; `None` without a corpus.
    fn requests(&self, operation: &Operation) -> Option<u64> {
        if let Kind::Neutral(neutral, _) = &operation.kind { neutral.requests() } else { None }
    }

    /// Fetches the configuration of all buckets, or the query nodes if there are only statements. Fails if the server
    /// rejects the credentials; ignores other failures.
    async fn verify(&self) -> Result<(), PlanError> {
        let limit = || Limit::starting_now(self.nodes.connect_options.timeout);
        let buckets = self.nodes.buckets();
        for bucket in &buckets {
            DiscoveryError::refusal(self.nodes.discover(bucket, limit()).await)?;
        }
        if buckets.is_empty() {
            DiscoveryError::refusal(self.nodes.discover_query(limit()).await)?;
        }
        Ok(())
    }

    /// Changes the target's hosts while load runs, and marks the buckets' configurations as possibly outdated. Refuses
    /// hosts that cannot be resolved.
    fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.nodes.topology.set_hosts(hosts)?;
        let buckets = self.nodes.buckets();
        buckets.iter().for_each(|bucket| bucket.doubt());
        if buckets.is_empty() {
            // No configuration of a bucket will list the new query nodes: the next statement asks for them.
            self.nodes.forget_query();
        }
        Ok(())
    }

    /// Returns all hosts that the target ever had, by node number.
    fn hosts(&self) -> Vec<String> {
        self.nodes.hosts()
    }

    /// Creates the state of client number `client`, without connections.
    fn connection(&self, _client: u64) -> Connection {
        Connection::default()
    }

    execute_with_memory!();

    /// Returns the request `draw` as text without sending it; `None` for a bulk request. Captured values are empty.
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
            Kind::Query(body) => body.render(&values, &mut buffers.request),
            Kind::Neutral(Neutral::Scan(scan), _) => buffers.scan(scan, &values),
            Kind::Neutral(neutral, bucket) => {
                buffers.verb(neutral, bucket, operation.durability, &values)?;
                return Some(words(&buffers.request));
            }
        }
        Some(statement::shown(&buffers.request))
    }
}

impl Couchbase {
    /// Runs an operation: a verb on the node of its document, a statement on a query node.
    /// `only`: indices of the documents of a bulk request, `None` for all.
    async fn ask(
        &self,
        connection: &mut Connection,
        operation: &Operation,
        values: &Values<'_>,
        only: Option<&[u32]>,
    ) -> Reply {
        let limit = Limit::starting_now(operation.timeout);
        let Connection { connections, statements, buffers, memory, shown } = connection;
        let (neutral, bucket) = match &operation.kind {
            Kind::Query(body) => {
                if self.nodes.query(0).is_none()
                    && let Err(error) = self.nodes.discover_query(limit).await
                {
                    return Reply::unsent(error.into());
                }
                buffers.request.clear();
                body.render(values, &mut buffers.request);
                let request = statement::Request { body: &buffers.request, turn: values.draw.turn, limit };
                return statements.ask(&self.nodes, operation, request, values, (memory, shown)).await;
            }
            Kind::Neutral(neutral, bucket) => (neutral, bucket),
        };
        if let Err(failure) = self.locate(bucket, limit).await {
            return Reply::unsent(failure);
        }
        let vbucket = match neutral {
            Neutral::Scan(scan) => {
                buffers.scan(scan, values);
                let request = statement::Request { body: &buffers.request, turn: values.draw.turn, limit };
                return statements.ask(&self.nodes, operation, request, values, (memory, shown)).await;
            }
            Neutral::Bulk(bulk) => {
                return bulk::ask(
                    connections,
                    &self.nodes,
                    (bulk, only),
                    bucket,
                    operation.durability,
                    values.draw.k,
                    limit,
                )
                .await;
            }
            neutral => buffers.verb(neutral, bucket, operation.durability, values).unwrap_or(0),
        };
        if let Some(failure) = buffers.refusal() {
            return Reply::unsent(failure);
        }
        let durable = operation.durability.is_some() && !neutral.reads();
        let (asked, outcome) = connections.ask(&self.nodes, bucket, &buffers.request, vbucket, durable, limit).await;
        let answer = connections.answer(&asked).filter(|_| outcome.is_ok());
        if let Some(shown) = shown {
            shown.request = words(&buffers.request);
            if let Some(answer) = &answer {
                let document = answer::document(neutral, answer, values);
                shown.answer = format!("status {:#04x}\n{}", answer.status, String::from_utf8_lossy(&document));
            }
        }
        let judged = outcome.and_then(|()| match &answer {
            Some(answer) => {
                let wanted = (operation.assertion.as_ref(), &operation.captures);
                answer::judge(neutral, answer, wanted, values, memory)
            }
            None => Err(answer::client("no answer")),
        });
        let reply = asked.exchanged.judged(asked.node, judged);
        let Neutral::ReadModifyWrite(write) = neutral else { return reply };
        read_modify_write(reply, async || {
            let vbucket = buffers.change(Action::Update, write, bucket, operation.durability, values);
            let durable = operation.durability.is_some();
            let (written, outcome) =
                connections.ask(&self.nodes, bucket, &buffers.request, vbucket, durable, limit).await;
            let judged = outcome.and_then(|()| match connections.answer(&written) {
                Some(answer) if answer.status != 0 => Err(answer::refusal(&answer)),
                _ => Ok(1),
            });
            written.exchanged.judged(written.node, judged)
        })
        .await
    }

    /// Fetches a bucket's vbuckets, within `limit`, if they are unknown; fails if no host has them. If they may be
    /// outdated, starts to refresh them in the background.
    async fn locate(&self, bucket: &Arc<Bucket>, limit: Limit) -> Result<(), Failure> {
        if !bucket.vbuckets.are_known() {
            return Ok(self.nodes.discover(bucket, limit).await?);
        }
        if let Some(refresh) = bucket.claim() {
            let (nodes, bucket) = (self.nodes.clone(), bucket.clone());
            reactor::spawn(async move {
                if nodes.discover(&bucket, Limit::starting_now(nodes.connect_options.timeout)).await.is_err() {
                    bucket.doubt();
                }
                refresh.end();
            });
        }
        Ok(())
    }
}

/// Formats a request for display, such as `GET key (vbucket 3)`; empty if it is incomplete.
fn words(request: &[u8]) -> String {
    let Some((opcode, vbucket, key, value)) = read_request(request) else { return String::new() };
    let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    let name = match opcode {
        0x00 => "GET",
        0x01 => "SET",
        0x02 => "ADD",
        0x04 => "DELETE",
        0xd0 => "LOOKUP",
        0xd1 => "MUTATE",
        _ => "?",
    };
    // Binary length bytes separate the paths.
    let plain: String = value.chars().map(|c| if c.is_control() || c == '\u{fffd}' { ' ' } else { c }).collect();
    format!("{name} {key} (vbucket {vbucket}) {plain}").trim_end().to_owned()
}
