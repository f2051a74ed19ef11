//! What all clients of a target share: its buckets, and which node has which part of each.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::PlanError;

use super::answer::client;
use super::connection::ConnectOptions;
use super::http_service;
use super::vbuckets::{Configuration, ServiceAddress, Vbuckets};
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::known::Known;
use crate::net::target_node::Host;
use crate::net::topology::Topology;

/// How long to wait for a node that is asked for the other nodes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a bucket's configuration is asked for: the short form, and the long one of servers that have no other.
const PLACES: [&str; 2] = ["/pools/default/b/", "/pools/default/buckets/"];

/// What a node means that answers every request with 401 or 403.
const REFUSED: &str = "the server does not know that user and password, or does not let them in";

/// A collection.
#[derive(Debug)]
pub struct Bucket {
    /// Its place among the buckets that operations are about.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// Who has which part of it.
    pub vbuckets: Vbuckets,
    /// The configuration that this is of.
    rev: AtomicI64,
    /// The configuration has to be asked for again.
    stale: AtomicBool,
}

/// See the module.
#[derive(Debug)]
pub struct CouchbaseNodes {
    /// The hosts as they were set: any of them lists the others.
    pub topology: Arc<Topology>,
    /// How connections to the nodes are made.
    pub connect_options: ConnectOptions,
    /// The nodes that have documents.
    pub known: Known,
    buckets: Mutex<Vec<Arc<Bucket>>>,
    /// The nodes that answer statements: their numbers, and where they do.
    query: Mutex<Vec<(u16, Arc<Host>)>>,
}

impl Bucket {
    /// Takes note that its parts may have moved.
    pub fn doubt(&self) {
        self.stale.store(true, Ordering::Relaxed);
    }

    /// Returns true to exactly one caller if its parts have to be asked for again.
    pub fn claim(&self) -> bool {
        self.stale.load(Ordering::Relaxed) && self.stale.swap(false, Ordering::Relaxed)
    }
}

impl CouchbaseNodes {
    /// Nothing is asked yet.
    pub fn new(topology: Arc<Topology>, connect_options: ConnectOptions) -> Self {
        Self { topology, connect_options, known: Known::default(), buckets: Mutex::default(), query: Mutex::default() }
    }

    /// The bucket of that name.
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
            stale: AtomicBool::new(false),
        };
        buckets.push(Arc::new(new));
        Ok(buckets[buckets.len() - 1].clone())
    }

    /// Every bucket that operations are about.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.buckets.lock().expect("no thread panics while it holds the lock").clone()
    }

    /// All hosts that the target ever had, by their numbers in the records.
    pub fn hosts(&self) -> Vec<String> {
        self.known.texts()
    }

    /// Where statement number `k` is answered.
    pub fn query(&self, turn: u64) -> Option<(u16, Arc<Host>)> {
        let query = self.query.lock().expect("no thread panics while it holds the lock");
        (!query.is_empty()).then(|| query[(turn % query.len() as u64) as usize].clone())
    }

    /// Asks the first host that answers who has which part of a bucket, within `limit`. The error is the last one's.
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

    async fn ask(&self, bucket: &Bucket, host: &Host, limit: Limit) -> Result<(), DiscoveryError> {
        for place in PLACES {
            let path = format!("{place}{}", bucket.name);
            let answer = http_service::get(host, &self.connect_options, &path, limit).await?;
            match answer.status() {
                200 => {
                    if self.learn(bucket, answer.body(), host).await {
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
        Err(client(&format!("there is no bucket {:?}", bucket.name)).into())
    }

    /// Takes note of a configuration that `host` has sent; says whether it is one. An older one than is
    /// known changes nothing.
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
        let mut query = Vec::new();
        for seat in configuration.query(&host.name, tls) {
            query.extend(self.asked(&seat).await);
        }
        *self.query.lock().expect("no thread panics while it holds the lock") = query;
        true
    }

    /// A node that answers statements, by the number that it has for its documents if it has any.
    async fn asked(&self, seat: &ServiceAddress) -> Option<(u16, Arc<Host>)> {
        let known = self.known.texts().iter().position(|text| *text == seat.name);
        let number = match known {
            Some(number) => number as u16,
            None => self.known.number(&seat.address).await.ok()?,
        };
        Some((number, Arc::new(Host::look_up(&seat.address).await.ok()?)))
    }
}

/// No node has that part of the bucket.
pub fn unserved() -> Failure {
    let message = "no node has that part of the bucket".to_owned();
    Failure::new(ErrorClass::Server, message)
}
