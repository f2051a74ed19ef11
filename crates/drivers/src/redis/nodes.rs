//! State of a target that all its clients share: whether it is a cluster, its nodes, and the node of each slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::PlanError;

use super::collection::Collections;
use super::connection::NodeConnection;
use super::error::refusal;
use super::resp::{Item, Reader};
use super::slots::{SLOTS, Slots};
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::known::Known;
use crate::net::refresh_throttle::{Refresh, RefreshThrottle};
use crate::net::target_node::Host;
use crate::net::topology::Topology;

/// Timeout of the discovery of one node.
const PATIENCE: Duration = Duration::from_secs(1);

/// Key of the hash that lists the collections, and which of them keep an index.
const COLLECTIONS: &str = "loadframe:collections";

/// Kind of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Not detected yet.
    Unknown,
    /// A single server, with all data.
    Single,
    /// A cluster; each server has some of the slots.
    Cluster,
}

/// The nodes of a target.
#[derive(Debug)]
pub struct RedisNodes {
    /// The configured hosts; any node of a cluster lists the others.
    pub topology: Arc<Topology>,
    /// Options for connections to the nodes.
    pub connect_options: ConnectOptions,
    /// The node of each slot in a cluster.
    pub slots: Slots,
    mode: AtomicU8,
    /// The nodes of a cluster.
    pub known: Known,
    /// When the slots must be queried again. Requests to a dead node fail at once, so each must not query them.
    refresh_throttle: RefreshThrottle,
    /// The collections of the operations.
    pub collections: Collections,
}

impl RedisNodes {
    /// Creates it without connecting.
    pub fn new(topology: Arc<Topology>, connect_options: ConnectOptions) -> Self {
        Self {
            topology,
            connect_options,
            slots: Slots::new(),
            mode: AtomicU8::new(Mode::Unknown as u8),
            known: Known::default(),
            refresh_throttle: RefreshThrottle::default(),
            collections: Collections::default(),
        }
    }

    /// Returns the kind of the target.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            1 => Mode::Single,
            2 => Mode::Cluster,
            _ => Mode::Unknown,
        }
    }

    /// Returns all hosts that the target ever had, in the order of their numbers in the records.
    pub fn hosts(&self) -> Vec<String> {
        match self.mode() {
            Mode::Cluster => self.known.texts(),
            Mode::Single | Mode::Unknown => self.topology.hosts(),
        }
    }

    /// Changes the configured hosts, and marks the slots as possibly out of date. For a cluster, these are the hosts
    /// that list its nodes. Refuses hosts that cannot be resolved.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.topology.set_hosts(hosts)?;
        self.doubt();
        Ok(())
    }

    /// Marks the slots as possibly out of date.
    pub fn doubt(&self) {
        self.refresh_throttle.doubt();
    }

    /// Returns a refresh to one caller if the slots must be queried again. The caller must then query them and end it.
    pub fn claim(&self) -> Option<Refresh> {
        self.refresh_throttle.claim()
    }

    /// Detects the kind of target from the first host that answers, and queries its slots or collections.
    /// Fails with the last host's error if none answers within `limit`.
    pub async fn discover(&self, limit: Limit) -> Result<(), DiscoveryError> {
        let mut outcome = Ok(());
        for node in self.topology.members().iter() {
            outcome = self.ask(&node.host, limit.at_most(PATIENCE)).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// Connects to a host, and stores the kind of target and its slots or collections. Fails if the host is
    /// unreachable, refuses the credentials, or is not ready.
    async fn ask(&self, host: &Host, limit: Limit) -> Result<(), DiscoveryError> {
        let mut connection = NodeConnection::default();
        // A refusal of AUTH is permanent.
        connection.connect(host, &self.connect_options, limit).await.map_err(|failure| match failure.class {
            ErrorClass::Client => DiscoveryError::Refused(failure),
            _ => DiscoveryError::Failed(failure),
        })?;
        let mut answer = connection.ask(&[b"CLUSTER", b"SLOTS"], limit).await?;
        if let Some(Item::List(ranges)) = answer.clone().next() {
            answer.next();
            limit.within(self.learn(answer, ranges, host)).await.ok_or_else(|| limit.missed())?;
            self.mode.store(Mode::Cluster as u8, Ordering::Release);
            return Ok(());
        }
        // A single server refuses the command for good, a node that is loading or busy only for now.
        require_ready(&answer)?;
        let mut answer = connection.ask(&[b"HGETALL", COLLECTIONS.as_bytes()], limit).await?;
        require_ready(&answer)?;
        answer.next();
        while let (Some(name), Some(definition)) = (answer.text(), answer.text()) {
            let keeps = serde_json::from_slice::<serde_json::Value>(definition).is_ok_and(|json| json["index"] == true);
            self.collections.set_indexed(name, keeps);
        }
        self.mode.store(Mode::Single as u8, Ordering::Release);
        Ok(())
    }

    /// Stores `ranges` ranges of slots and their nodes from the elements of an answer.
    /// Each element is `[first, last, [address, port, ...], ...]`. `asked` is the host that answered. Stops at a
    /// malformed range; skips nodes whose name cannot be resolved.
    async fn learn(&self, mut answer: Reader<'_>, ranges: usize, asked: &Host) {
        for _ in 0..ranges {
            let Some(parts) = answer.list() else { return };
            let (Some(first), Some(last), Some(fields)) = (answer.int(), answer.int(), answer.list()) else { return };
            let address = match answer.next() {
                Some(Item::Bulk(address)) if !address.is_empty() => String::from_utf8_lossy(address).into_owned(),
                // A node that does not know its own address means the address that the query used.
                _ => asked.name.clone(),
            };
            let Some(port) = answer.int() else { return };
            (2..fields).for_each(|_| answer.skip());
            (3..parts).for_each(|_| answer.skip());
            if let Ok(number) = self.known.number(&host_port(&address, port)).await {
                let first = usize::try_from(first).unwrap_or(SLOTS);
                let last = usize::try_from(last).unwrap_or(0).min(SLOTS - 1);
                (first..=last).for_each(|slot| self.slots.set(slot, number));
            }
        }
    }
}

/// Fails with an error reply that may pass, such as `LOADING`. Other answers, also permanent errors, pass.
fn require_ready(answer: &Reader<'_>) -> Result<(), Failure> {
    let Some(Item::Error(words)) = answer.clone().next() else { return Ok(()) };
    let failure = refusal(words);
    if failure.class == ErrorClass::Client { Ok(()) } else { Err(failure) }
}

/// Returns the failure, of class Server, of a command for a slot without a node.
pub fn unserved(slot: usize) -> Failure {
    let message = format!(
        "no node of the cluster serves slot {slot}: CLUSTER SLOTS does not list it; assign the slots, for example with \
         `redis-cli --cluster create`"
    );
    Failure::new(ErrorClass::Server, message)
}

/// Joins an address and a port; puts an IPv6 address in brackets.
fn host_port(address: &str, port: i64) -> String {
    if address.contains(':') && !address.starts_with('[') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    }
}

/// Parses `MOVED 866 127.0.0.1:7001` or `ASK ...` into the slot and the address `host:port`; `None` if malformed. An
/// empty host means `asked`, the host that answered.
pub fn redirection(words: &[u8], asked: &Host) -> Option<(usize, String)> {
    let text = std::str::from_utf8(words).ok()?;
    let (_, rest) = text.split_once(' ')?;
    let (slot, address) = rest.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    let slot: usize = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    Some((slot, host_port(if host.is_empty() { &asked.name } else { host }, port.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use loadframe_engine::plan::Spread;
    use loadframe_engine::recording::reconnects;
    use loadframe_null_server::NullServer;

    use super::*;
    use crate::net::refresh_throttle::once_due;

    /// Returns the state of a target without any contact to it.
    fn nodes() -> RedisNodes {
        let hosts = ["127.0.0.1:7000".to_owned()];
        let topology = Topology::new(&hosts, Spread::Fixed, None).unwrap();
        RedisNodes::new(Arc::new(topology), ConnectOptions::plain())
    }

    #[tokio::test]
    async fn slot_ranges_are_stored_with_their_nodes() {
        let nodes = nodes();
        let asked = Host::resolve("127.0.0.1:7000").unwrap();
        let answer = b"*3\r\n:0\r\n:8191\r\n*4\r\n$0\r\n\r\n:7000\r\n$2\r\nid\r\n*2\r\n$8\r\nhostname\r\n$1\r\nx\r\n\
            *4\r\n:8192\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7001\r\n$2\r\nid\r\n*2\r\n$9\r\n127.0.0.1\r\n:7002\r\n";
        nodes.learn(Reader::new(answer), 2, &asked).await;
        assert_eq!((nodes.slots.get(0), nodes.slots.get(8191)), (Some(0), Some(0)));
        assert_eq!((nodes.slots.get(8192), nodes.slots.get(16_383)), (Some(1), Some(1)));
        assert_eq!(nodes.known.host(1).unwrap().text, "127.0.0.1:7001");
    }

    #[test]
    fn a_query_of_the_driver_is_no_setup_of_a_client() {
        let server = NullServer::start("redis").unwrap();
        let topology = Topology::new(&[server.address().to_string()], Spread::Fixed, None).unwrap();
        let nodes = RedisNodes::new(Arc::new(topology), ConnectOptions::plain());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        reconnects::take_setups(|_| ());
        runtime.block_on(nodes.discover(Limit::starting_now(Duration::from_secs(60)))).unwrap();
        assert_eq!(nodes.mode(), Mode::Single);
        reconnects::take_setups(|_| panic!("no client connected"));
    }

    #[test]
    fn many_failures_query_the_slots_once() {
        let nodes = nodes();
        assert!(nodes.claim().is_none());
        for _ in 0..2 {
            nodes.doubt();
            let refresh = once_due(|| nodes.claim());
            nodes.doubt();
            assert!(nodes.claim().is_none(), "a query is under way");
            refresh.end();
        }
    }

    #[tokio::test]
    async fn hostile_ranges_stay_within_the_slots() {
        let nodes = nodes();
        let asked = Host::resolve("127.0.0.1:7000").unwrap();
        for range in ["*3\r\n:-5\r\n:99999\r\n", "*3\r\n:16384\r\n:16400\r\n", "*1\r\n:1\r\n", ":1\r\n"] {
            let answer = format!("{range}*2\r\n$9\r\n127.0.0.1\r\n:1\r\n");
            nodes.learn(Reader::new(answer.as_bytes()), 1 << 40, &asked).await;
        }
    }

    #[test]
    fn a_server_that_cannot_answer_for_now_is_not_taken_for_a_single_one() {
        for words in ["LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script"] {
            assert_eq!(require_ready(&Reader::new(format!("-{words}\r\n").as_bytes())).unwrap_err().message, words);
        }
        for answer in ["-ERR This instance has cluster support disabled\r\n", "*0\r\n", "-NOPERM no permissions\r\n"] {
            assert!(require_ready(&Reader::new(answer.as_bytes())).is_ok(), "{answer}");
        }
    }

    #[test]
    fn a_redirection_names_a_slot_and_an_address() {
        let asked = Host::resolve("127.0.0.1:7000").unwrap();
        let told = |words: &str| redirection(words.as_bytes(), &asked);
        assert_eq!(told("MOVED 866 127.0.0.2:7001"), Some((866, "127.0.0.2:7001".into())));
        assert_eq!(told("ASK 866 :7001"), Some((866, "127.0.0.1:7001".into())));
        assert_eq!(told("MOVED 866 ::1:7001"), Some((866, "[::1]:7001".into())));
        for words in ["MOVED", "MOVED 1", "MOVED 16384 a:1", "MOVED x a:1", "MOVED 1 a:b", "MOVED 1 a"] {
            assert_eq!(told(words), None, "{words}");
        }
    }
}
