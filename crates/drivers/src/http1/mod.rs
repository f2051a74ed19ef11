//! HTTP/1.1 for the drivers: each [`client`] has one [`request`] in flight. The drivers interpret operations and judge
//! each [`answer`].
//!
//! The [topology](crate::net::topology) selects the node.

pub mod access;
pub mod answer;
pub mod aws;
pub mod captured;
pub mod client;
pub mod compress;
pub mod request;
pub mod status;
pub mod text;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, NO_NODE, Nodes, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::workload::variables::{Captured, Values};

use self::access::Access;
use self::answer::Answer;
use self::client::HttpClient;
use self::request::{Buffers, Request};
use crate::net::assignment::Assignment;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::marks::Setup;
use crate::net::per_thread::PerThread;
use crate::net::pool::Pool;
use crate::net::route;
use crate::net::route::Route;
use crate::net::target_node::TargetNode;
use crate::net::topology::Topology;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;

/// Time limit for contacting a host before the load starts.
const PATIENCE: Duration = Duration::from_secs(5);

/// A target, shared by all its clients.
#[derive(Debug)]
pub struct Http1 {
    topology: Arc<Topology>,
    access: Access,
    timeout: Duration,
    cap: Option<Cap>,
}

/// Connection limit of all clients together.
#[derive(Debug)]
struct Cap {
    /// Number of routes, over all workers.
    routes: u64,
    workers: u64,
    pools: PerThread<Pool>,
}

/// The state of one client.
pub struct Connection {
    means: ConnectionSet,
    client: HttpClient,
    buffers: Buffers,
    /// The user's captured values.
    pub memory: Captured,
    /// Number of the next request that is not drawn. Starts at the client's number.
    number: u64,
}

/// The routes of a client's requests.
enum ConnectionSet {
    Own(Route),
    /// Borrowed per request, from the pool. The number selects a node, if set.
    Shared(Rc<Pool>, Option<u16>),
}

/// An answered request. The answer itself is in the connection.
#[derive(Debug)]
pub struct Answered {
    exchanged: Exchanged,
    node: u16,
    /// Number of documents in the request.
    pub documents: u64,
}

impl Http1 {
    /// Reads the target's access settings and resolves its hosts, which blocks, without connecting. Refuses unusable
    /// credentials, certificates and hosts.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        let timeout = target.timeout;
        let access = Access::new(target)?;
        let topology =
            Topology::new(&target.hosts, target.spread, access.tls.clone())?.with_homes(target.homes.clone());
        Ok(Self { topology: Arc::new(topology), access, timeout, cap: None })
    }

    /// Returns the default time limit for an answer. An operation may override it.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Checks TLS to all hosts concurrently, for at most 5 s. Fails for a host that this client can never use; a host
    /// that does not answer is not an error. Needs Tokio's event loop.
    pub async fn verify(&self) -> Result<(), PlanError> {
        let Some(tls) = &self.access.tls else { return Ok(()) };
        let timeout = self.timeout.min(PATIENCE);
        let members = self.topology.members();
        let ask = |node: &Arc<TargetNode>| {
            let (node, tls) = (node.clone(), tls.clone());
            tokio::spawn(async move { Wire::refusal(&node.host, &tls, timeout).await })
        };
        let asked: Vec<_> = members.iter().map(ask).collect();
        for (node, asked) in members.iter().zip(asked) {
            if let Ok(Some(refusal)) = asked.await {
                return Err(PlanError::target(refusal).within(format!("host \"{}\"", node.host.text)));
            }
        }
        Ok(())
    }

    /// Changes the hosts while load runs. Refuses an empty list, duplicates and hosts that cannot be resolved.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.topology.set_hosts(hosts)
    }

    /// Returns all hosts that the target ever had, by node number.
    pub fn hosts(&self) -> Vec<String> {
        self.topology.hosts()
    }

    /// Returns the hosts that refuse connections now, each with the reason.
    pub fn unreachable(&self) -> Vec<(String, String)> {
        self.topology.unreachable()
    }

    /// Limits the open connections of all clients to `connections`, divided among `workers` threads.
    /// The clients of a thread share its part. Refuses a number with which a thread could not reach each host.
    pub fn cap(&mut self, connections: u64, workers: u64) -> Result<(), PlanError> {
        let per_client = self.topology.connections();
        let routes = connections / per_client;
        if routes < workers {
            return Err(PlanError::new(format!(
                "{connections} connections are too few: each of {workers} worker threads needs one to each of {per_client} \
                 hosts, unless the spread is fixed"
            )));
        }
        self.cap = Some(Cap { routes, workers, pools: PerThread::new() });
        Ok(())
    }

    /// Returns the state of client number `client`. It connects at its first request.
    pub fn connection(&self, client: u64) -> Connection {
        let means = match &self.cap {
            None => ConnectionSet::Own(Route::new(Assignment::new(self.topology.clone(), client))),
            Some(cap) => {
                // A worker's clients have the same number modulo the number of workers. Its routes are numbered
                // likewise.
                let numbers = (client % cap.workers..cap.routes).step_by(cap.workers as usize);
                let route = |number| Route::new(Assignment::new(self.topology.clone(), number));
                ConnectionSet::Shared(cap.pools.get(|| Pool::new(numbers.map(route).collect())), None)
            }
        };
        let buffers = Buffers::default();
        Connection { means, client: HttpClient::new(), buffers, memory: Captured::NONE, number: client }
    }

    /// Returns the nodes for the clients of worker `worker` of `workers`, each weighted by its share of the requests;
    /// `None` unless the spread is fixed.
    pub fn nodes(&self, worker: u64, workers: u64) -> Option<Box<dyn Nodes>> {
        self.topology.choice(worker, workers, || true)
    }

    /// Renders a request as text without sending it; it replaces the client's last request. See [`Connection::shown`].
    pub fn written(&self, connection: &mut Connection, request: &Request, values: &Values<'_>) -> String {
        let buffers = &mut connection.buffers;
        // A request that cannot be signed is shown, too.
        let _ = request.render(&self.topology.members()[0].host, &self.access, values, buffers);
        let (line, body) = request.rendered(buffers);
        text::message(line, body)
    }

    /// Renders and sends a request and waits for the answer. The error is the reply of a request without an answer.
    /// Opens a connection unless a usable one exists. After a refused connection, the next call tries another node.
    /// `limit` covers all of this.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        request: &Request,
        limit: Limit,
        values: &Values<'_>,
    ) -> Result<Answered, Reply> {
        let Connection { means, client, buffers, .. } = connection;
        let mut borrowed;
        let route = match means {
            ConnectionSet::Own(route) => route,
            ConnectionSet::Shared(pool, wanted) => {
                let Some(lent) = pool.borrow(limit, *wanted).await else {
                    client.forget();
                    return Err(Answered::unsent(NO_NODE).without(Trouble::late("no connection was free", limit)));
                };
                borrowed = lent;
                borrowed.route()
            }
        };
        let Route { assignment, wires } = route;
        let wire = route::turn(assignment, wires, values.draw.turn);
        let node = assignment.node();
        let _busy = assignment.occupy();
        let rendered = match request.render(&node.host, &self.access, values, buffers) {
            Ok(rendered) => rendered,
            Err(why) => {
                client.forget();
                let failure = Failure::new(ErrorClass::Client, format!("the request cannot be signed: {why}"));
                return Err(Answered::unsent(node.number).reply(0, Err(failure)));
            }
        };
        let (number, documents) = (node.number, rendered.documents);
        if wire.is_none() {
            client.forget();
            match Wire::open_for(wire, &node.host, self.access.tls.as_ref(), limit).await {
                Ok(setup) => {
                    node.rise();
                    setup.into_iter().for_each(Setup::finish);
                }
                Err(trouble) => {
                    // A timeout shows nothing about the node: the request had waited for its turn.
                    if trouble.class == ErrorClass::Connect {
                        assignment.refused(&trouble.message);
                    }
                    let exchanged = Exchanged::never();
                    return Err(Answered { exchanged, node: number, documents }.without(trouble));
                }
            }
        }
        let (exchanged, outcome) = client.exchange(wire, rendered.parts, request.answer, limit).await;
        let answered = Answered { exchanged, node: number, documents };
        match outcome {
            Ok(()) => Ok(answered),
            Err(trouble) => Err(answered.without(trouble)),
        }
    }
}

impl Connection {
    /// Returns the last answer. It is complete unless its request failed.
    pub fn answer(&self) -> &Answer {
        self.client.answer()
    }

    /// Switches the client to node number `node` from its next request on; if connections are shared, it prefers
    /// connections to the node. `keep`: the client's own connections to other nodes stay open.
    pub fn turn_to(&mut self, node: u16, keep: bool) {
        match &mut self.means {
            ConnectionSet::Own(route) => route.assignment.turn_to(node, keep),
            ConnectionSet::Shared(_, wanted) => *wanted = Some(node),
        }
    }

    /// Returns the last answer, and the buffer of carried bytes for the next request.
    pub fn carry(&mut self) -> (&Answer, &mut Vec<u8>) {
        (self.client.answer(), &mut self.buffers.carried)
    }

    /// Limits the following requests to the documents at the indices `places`. Empty means all documents.
    pub fn confine(&mut self, places: &[u32]) {
        self.buffers.only.clear();
        self.buffers.only.extend_from_slice(places);
    }

    /// Calls `write`, which replaces a buffer's contents by the next request's body.
    /// `write` returns the number of documents in the body.
    pub fn give(&mut self, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        self.buffers.give(write);
    }

    /// Returns the number of the next request that has no draw, such as one for a batch of events, and advances it.
    pub fn number(&mut self) -> u64 {
        let number = self.number;
        self.number += 1;
        number
    }

    /// Discards the last request and its answer, so that they are not shown for a request that was not sent.
    pub fn forget(&mut self) {
        self.client.forget();
        self.buffers = Buffers::default();
    }

    /// Formats the last request and its answer. Shows only the first line of each head, because headers may hold
    /// secrets.
    pub fn shown(&self, request: &Request, reply: &Reply) -> Exchange {
        let answer = match &reply.outcome {
            Err(failure) if !self.answer().is_complete() => failure.message.clone(),
            _ => match (text::message(self.answer().status_line(), self.answer().body()), self.answer().dropped()) {
                (whole, 0) => whole,
                (beginning, dropped) => format!("{beginning}\n... and {dropped} more bytes, which are not kept"),
            },
        };
        let (line, body) = request.rendered(&self.buffers);
        Exchange { request: text::message(line, body), answer }
    }
}

impl Answered {
    /// Returns a request that was not sent to `node`, without documents.
    fn unsent(node: u16) -> Self {
        Self { exchanged: Exchanged::never(), node, documents: 0 }
    }

    /// Returns the request's reply with this number of documents and the judged outcome.
    pub fn reply(self, documents: u64, outcome: Result<(), Failure>) -> Reply {
        self.exchanged.reply(self.node, documents, outcome)
    }

    /// Returns the reply of a request without an answer, which failed by `trouble`.
    fn without(self, trouble: Trouble) -> Reply {
        self.reply(0, Err(trouble.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::variables::Variables;
    use serde_json::json;

    use super::request::{Body, RequestHead};
    use super::*;

    #[tokio::test]
    async fn a_node_does_not_count_as_down_after_a_request_that_waited_too_long_for_its_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let target: Target = serde_json::from_value(json!({"driver": "search", "hosts": [host]})).unwrap();
        let http = Http1::new(&target).unwrap();
        let (variables, draw) = (Variables::default(), Draw::new(0, 0, 0));
        let request = RequestHead::new("GET", &variables).path("/").unwrap().finish(Body::None);
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let due = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let limit = Limit { due, timeout: Duration::from_secs(9) };
        let reply = http.ask(&mut http.connection(0), &request, limit, &values).await.unwrap_err();
        assert_eq!(reply.outcome.unwrap_err().class, ErrorClass::Timeout);
        assert!(http.unreachable().is_empty());
    }
}
