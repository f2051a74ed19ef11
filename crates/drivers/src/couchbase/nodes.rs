//! State shared by all clients of a target: its buckets, and the node that owns each vbucket.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::PlanError;

use super::answer::client;
use super::connection::ConnectOptions;
use super::http_service;
use super::vbuckets::{Configuration, NodeServices, ServiceAddress, Vbuckets};
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::known::Known;
use crate::net::refresh_throttle::{Refresh, RefreshThrottle};
use crate::net::target_node::Host;
use crate::net::topology::Topology;

/// Time limit for a node's reply with its configuration.
const PATIENCE: Duration = Duration::from_secs(2);

/// Paths of a bucket's configuration: the short form, then the long form for servers that lack the short one.
const PLACES: [&str; 2] = ["/pools/default/b/", "/pools/default/buckets/"];

/// Path of the list of all nodes and their services.
const SERVICES: &str = "/pools/default/nodeServices";

/// The error for a node that answers every request with 401 or 403.
const REFUSED: &str = "the server does not know that user and password, or does not let them in";

/// A bucket.
#[derive(Debug)]
pub struct Bucket {
    /// Index among the buckets that operations use.
    pub number: usize,
    /// The bucket's name.
    pub name: String,
    /// The node that owns each vbucket.
    pub vbuckets: Vbuckets,
    /// Revision of the configuration that `vbuckets` reflects.
    rev: AtomicI64,
    /// When the configuration must be fetched again. Requests to a dead node, and for a vbucket without a node, fail at
    /// once, so each must not fetch it.
    refresh_throttle: RefreshThrottle,
}

/// The nodes and buckets of a target.
#[derive(Debug)]
pub struct CouchbaseNodes {
    /// The configured hosts. Any of them lists the others.
    pub topology: Arc<Topology>,
    /// Settings of connections to the nodes.
    pub connect_options: ConnectOptions,
    /// The nodes that hold documents.
    pub known: Known,
    buckets: Mutex<Vec<Arc<Bucket>>>,
    /// The nodes that run the query service: their numbers and addresses.
    query: ArcSwap<Vec<(u16, Arc<Host>)>>,
}

impl Bucket {
    /// Marks the configuration as possibly outdated.
    pub fn doubt(&self) {
        self.refresh_throttle.doubt();
    }

    /// Returns the number of the node that owns a vbucket. Fails, and marks the configuration as possibly outdated, if
    /// no node does: it may have got one since.
    pub fn owner(&self, vbucket: u16) -> Result<u16, Failure> {
        self.vbuckets.node(vbucket).ok_or_else(|| {
            self.doubt();
            unserved()
        })
    }

    /// Returns a refresh to one caller if the configuration must be fetched again. The caller must then fetch it and end
    /// the refresh.
    pub fn claim(&self) -> Option<Refresh> {
        self.refresh_throttle.claim()
    }
}

impl CouchbaseNodes {
    /// Creates the state without contacting any node.
    pub fn new(topology: Arc<Topology>, connect_options: ConnectOptions) -> Self {
        Self {
            topology,
            connect_options,
            known: Known::default(),
            buckets: Mutex::default(),
            query: ArcSwap::default(),
        }
    }

    /// Returns the bucket of that name, and adds it if it is new. Refuses a name with other characters than letters,
    /// digits, `.`, `_` and `-`. Does not contact the store.
    pub fn bucket(&self, name: &str) -> Result<Arc<Bucket>, PlanError> {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(PlanError::new(format!(
                "{name:?} is not a valid bucket name: use letters, digits, ., _ and -"
            )));
        }
        let mut buckets = self.buckets.lock().expect("no thread panics while it holds the lock");
        if let Some(known) = buckets.iter().find(|known| known.name == name) {
            return Ok(known.clone());
        }
        let new = Bucket {
            number: buckets.len(),
            name: name.to_owned(),
            vbuckets: Vbuckets::new(),
            rev: AtomicI64::new(i64::MIN),
            refresh_throttle: RefreshThrottle::default(),
        };
        buckets.push(Arc::new(new));
        Ok(buckets[buckets.len() - 1].clone())
    }

    /// Returns all buckets that operations use.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.buckets.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// Returns all hosts that the target ever had, by their numbers in the records.
    pub fn hosts(&self) -> Vec<String> {
        self.known.texts()
    }

    /// Returns the query node for statement number `turn`, by round robin; `None` if no query node is known.
    pub fn query(&self, turn: u64) -> Option<(u16, Arc<Host>)> {
        let query = self.query.load();
        (!query.is_empty()).then(|| query[(turn % query.len() as u64) as usize].clone())
    }

    /// Fetches and applies a bucket's configuration, from the first host that returns it, within `limit`.
    ///
    /// The error is the last host's.
    pub async fn discover(&self, bucket: &Bucket, limit: Limit) -> Result<(), DiscoveryError> {
        let mut outcome = Err(DiscoveryError::Failed(unserved()));
        for node in self.topology.members().iter() {
            outcome = self.ask(bucket, &node.host, limit.at_most(PATIENCE)).await;
            if outcome.is_ok() {
                node.rise();
                break;
            }
        }
        outcome
    }

    /// Asks a host for the bucket's configuration, within `limit`, and learns it. Fails if the host is unreachable,
    /// refuses the credentials, or does not have a usable one.
    async fn ask(&self, bucket: &Bucket, host: &Host, limit: Limit) -> Result<(), DiscoveryError> {
        for place in PLACES {
            let path = format!("{place}{}", bucket.name);
            let answer = http_service::get(host, &self.connect_options, &path, limit).await?;
            match answer.status() {
                200 => {
                    let learned = limit.within(self.learn(bucket, answer.body(), host)).await;
                    if learned.ok_or_else(|| limit.missed())? {
                        return Ok(());
                    }
                }
                401 | 403 => return Err(DiscoveryError::Refused(client(REFUSED))),
                404 => {}
                status => {
                    let message = format!("{path} was answered with {status}");
                    return Err(Failure::new(ErrorClass::Server, message).into());
                }
            }
        }
        Err(client(&format!("the bucket {:?} does not exist", bucket.name)).into())
    }

    /// Applies a configuration that `host` sent, in JSON: the vbuckets' nodes and the query nodes, whose names it
    /// resolves. Returns false if `json` is not a configuration. Ignores an older revision than the known one.
    pub async fn learn(&self, bucket: &Bucket, json: &[u8], host: &Host) -> bool {
        let Some(configuration) = Configuration::parse(json) else { return false };
        if bucket.rev.fetch_max(configuration.rev, Ordering::AcqRel) > configuration.rev {
            return true;
        }
        let tls = self.connect_options.tls.is_some();
        let seats = configuration.seats(&host.name, tls);
        let mut numbers: Vec<Option<u16>> = Vec::new();
        for seat in &seats {
            numbers.push(self.known.number_of(&seat.address, &seat.name).await.ok());
        }
        bucket.vbuckets.set(configuration.owners().map(|place| place.and_then(|place| *numbers.get(place)?)));
        self.learn_query(&configuration.query(&host.name, tls)).await;
        true
    }

    /// Fetches the nodes of the query service from the first host that lists them, within `limit`. The error is the
    /// last host's. Statements name no bucket, whose configuration would list them.
    pub async fn discover_query(&self, limit: Limit) -> Result<(), DiscoveryError> {
        let mut outcome = Err(DiscoveryError::Failed(unserved()));
        for node in self.topology.members().iter() {
            outcome = self.ask_services(&node.host, limit.at_most(PATIENCE)).await;
            if outcome.is_ok() {
                node.rise();
                break;
            }
        }
        outcome
    }

    /// Asks a host for the nodes of the query service, within `limit`, and learns them. Fails if the host is
    /// unreachable, refuses the credentials, or does not list any.
    async fn ask_services(&self, host: &Host, limit: Limit) -> Result<(), DiscoveryError> {
        let answer = http_service::get(host, &self.connect_options, SERVICES, limit).await?;
        let services = match answer.status() {
            200 => NodeServices::parse(answer.body()),
            401 | 403 => return Err(DiscoveryError::Refused(client(REFUSED))),
            _ => None,
        };
        let Some(services) = services else {
            let message = format!("{SERVICES} was answered with {}, and without nodes", answer.status());
            return Err(Failure::new(ErrorClass::Server, message).into());
        };
        let seats = services.query(&host.name, self.connect_options.tls.is_some());
        if seats.is_empty() {
            return Err(no_query_node().into());
        }
        limit.within(self.learn_query(&seats)).await.ok_or_else(|| limit.missed())?;
        Ok(())
    }

    /// Forgets the nodes of the query service.
    pub fn forget_query(&self) {
        self.query.store(Arc::default());
    }

    /// Stores the nodes of the query service at these addresses, instead of earlier ones. Leaves out those whose names
    /// cannot be resolved.
    async fn learn_query(&self, seats: &[ServiceAddress]) {
        let mut query = Vec::new();
        for seat in seats {
            query.extend(self.asked(seat).await);
        }
        self.query.store(Arc::new(query));
    }

    /// Resolves a node of the query service. Returns its number and address; `None` if the name cannot be resolved. A
    /// node that also stores documents has the same number there.
    async fn asked(&self, seat: &ServiceAddress) -> Option<(u16, Arc<Host>)> {
        let known = self.known.texts().iter().position(|text| *text == seat.name);
        let number = match known {
            Some(number) => number as u16,
            None => self.known.number(&seat.address).await.ok()?,
        };
        Some((number, Arc::new(Host::look_up(&seat.address).await.ok()?)))
    }
}

/// Returns the failure for a vbucket that no node owns, of class Server.
pub fn unserved() -> Failure {
    let message = "no node has that part of the bucket".to_owned();
    Failure::new(ErrorClass::Server, message)
}

/// Returns the failure of a statement if no node runs the query service, of class Client.
pub fn no_query_node() -> Failure {
    client("no node of the cluster answers statements")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use loadframe_engine::plan::{Spread, Target};
    use loadframe_engine::recording::reconnects;

    use super::*;
    use crate::net::refresh_throttle::once_due;

    #[test]
    fn the_configuration_is_fetched_again_for_a_vbucket_without_a_node() {
        let target: Target =
            serde_json::from_value(serde_json::json!({"driver": "couchbase", "hosts": ["127.0.0.1:1"]})).unwrap();
        let topology = Arc::new(Topology::new(&target.hosts, Spread::Fixed, None).unwrap());
        let bucket = CouchbaseNodes::new(topology, ConnectOptions::new(&target).unwrap()).bucket("b").unwrap();
        bucket.vbuckets.set([Some(3), None].into_iter());
        assert_eq!(bucket.owner(0).unwrap(), 3);
        assert!(bucket.claim().is_none());
        for _ in 0..2 {
            assert_eq!(bucket.owner(1).unwrap_err().class, ErrorClass::Server);
            let refresh = once_due(|| bucket.claim());
            bucket.doubt();
            assert!(bucket.claim().is_none(), "one client fetches it");
            refresh.end();
        }
    }

    /// Statements alone must find the query service, because no operation names a bucket.
    #[tokio::test]
    async fn nodes_of_the_query_service_are_found_without_a_bucket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let body =
                r#"{"rev": 1, "nodesExt": [{"services": {"mgmt": 8091, "n1ql": 8093}}, {"services": {"kv": 1}}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
            String::from_utf8(request).unwrap()
        });
        let hosts = [format!("127.0.0.1:{port}")];
        let target: Target =
            serde_json::from_value(serde_json::json!({"driver": "couchbase", "hosts": hosts})).unwrap();
        let topology = Arc::new(Topology::new(&hosts, Spread::Fixed, None).unwrap());
        let nodes = CouchbaseNodes::new(topology, ConnectOptions::new(&target).unwrap());
        assert!(nodes.query(0).is_none());
        reconnects::take_setups(|_| ());
        nodes.discover_query(Limit::starting_now(Duration::from_secs(30))).await.unwrap();
        reconnects::take_setups(|_| panic!("no client connected"));
        let (_, host) = nodes.query(0).unwrap();
        assert_eq!((host.text.as_str(), nodes.query(1).unwrap().1.text.as_str()), ("127.0.0.1:8093", "127.0.0.1:8093"));
        assert!(server.join().unwrap().starts_with("GET /pools/default/nodeServices HTTP/1.1\r\n"));
        nodes.forget_query();
        assert!(nodes.query(0).is_none());
    }
}
