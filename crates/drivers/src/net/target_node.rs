//! A node of the target: its address, and whether it accepts connections.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loadframe_engine::plan::PlanError;

/// First pause before a node that refused a connection is tried again; it doubles with each failure.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longest pause.
const LONGEST: Duration = Duration::from_millis(500);

/// A node of the target. All clients share it.
#[derive(Debug)]
pub struct TargetNode {
    /// Its number in the records, fixed for the whole run.
    pub number: u16,
    /// Its address.
    pub host: Host,
    /// The last attempt to connect failed, or the node has just joined.
    down: AtomicBool,
    /// Time of the next attempt, in milliseconds of the topology's clock; `u64::MAX` during an attempt.
    due: AtomicU64,
    /// The pause after the next failure, in milliseconds.
    wait: AtomicU64,
    /// Requests in flight, if counted.
    busy: AtomicU64,
    /// Why the last attempt to connect failed.
    refusal: Mutex<Option<String>>,
}

/// Counts a request in flight to a node until it is dropped.
pub struct Busy(Arc<TargetNode>);

impl Busy {
    /// Starts to count a request.
    pub fn new(node: Arc<TargetNode>) -> Self {
        node.busy.fetch_add(1, Ordering::Relaxed);
        Self(node)
    }
}

impl Drop for Busy {
    /// Ends the count of the request.
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `name:port`, resolved once.
#[derive(Clone, Debug)]
pub struct Host {
    /// The text as the user wrote it.
    pub text: String,
    /// Its addresses, in the resolver's order.
    pub addresses: Vec<SocketAddr>,
    /// The name or address as the user wrote it, which the certificate must match.
    pub name: String,
    /// The `host` header of a request, with its line ending.
    pub(super) field: Vec<u8>,
    /// The same without the port.
    pub(super) field_without_port: Vec<u8>,
    pub(super) port: u16,
}

impl TargetNode {
    /// Creates a node. A `proven` node counts as up until it refuses a connection; any other gets no clients before it
    /// accepts one.
    pub fn new(number: u16, host: Host, proven: bool) -> Self {
        let wait = AtomicU64::new(SHORTEST.as_millis() as u64);
        Self {
            number,
            host,
            down: AtomicBool::new(!proven),
            due: AtomicU64::new(0),
            wait,
            busy: AtomicU64::new(0),
            refusal: Mutex::default(),
        }
    }

    /// Returns whether it is known or assumed to refuse connections.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Returns the number of its requests in flight.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Records an accepted connection: the node is up, and the pause before the next check is again 100 ms.
    pub fn rise(&self) {
        if self.is_down() {
            self.wait.store(SHORTEST.as_millis() as u64, Ordering::Relaxed);
            self.down.store(false, Ordering::Relaxed);
        }
    }

    /// Returns why it refuses connections; `None` unless it is down and a client has tried.
    pub fn refusal(&self) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone().filter(|_| self.is_down())
    }

    /// Records a refused connection at `now`, in milliseconds of the topology's clock, and the reason. The node is down
    /// until it accepts one. If many clients report it at once, the first report counts.
    pub fn fall(&self, now: u64, why: &str) {
        if !self.down.swap(true, Ordering::Relaxed) {
            self.postpone(now, why);
        }
    }

    /// Records that the check of a down node failed at `now`, in milliseconds of the topology's clock, and why. The
    /// next check is due after a pause, which doubles with each failure, up to 500 ms.
    pub fn postpone(&self, now: u64, why: &str) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        let wait = self.wait.load(Ordering::Relaxed);
        self.wait.store((wait * 2).min(LONGEST.as_millis() as u64), Ordering::Relaxed);
        self.due.store(now + wait, Ordering::Relaxed);
    }

    /// Returns true to exactly one caller once the next attempt is due at `now`.
    /// That caller must end with `rise`, `postpone` or `release`. `now` is in milliseconds of the topology's clock.
    pub fn claim(&self, now: u64) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        due <= now && self.due.compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives a claim back without a result; the next attempt is due at once.
    pub fn release(&self) {
        let _ = self.due.compare_exchange(u64::MAX, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Host {
    /// Resolves `name:port`, `1.2.3.4:port` or `[::1]:port`. Blocks the thread during the lookup. Fails without an
    /// address.
    pub fn resolve(host: &str) -> Result<Self, PlanError> {
        let name = Self::name_of(host)?;
        Self::with(host, name, host.to_socket_addrs().map(Iterator::collect))
    }

    /// Resolves `name:port`, `1.2.3.4:port` or `[::1]:port` without blocking, for threads that send requests. Fails
    /// without an address.
    pub async fn look_up(host: &str) -> Result<Self, PlanError> {
        let name = Self::name_of(host)?;
        let addresses = match host.parse::<SocketAddr>() {
            Ok(address) => Ok(vec![address]),
            Err(_) => tokio::net::lookup_host(host).await.map(Iterator::collect),
        };
        Self::with(host, name, addresses)
    }

    /// Returns the `host` header of a request, with its line ending. The default port of the scheme (`tls`: https) is
    /// left out, as by other clients: services check signatures of the header without it.
    pub fn field(&self, tls: bool) -> &[u8] {
        if self.port == if tls { 443 } else { 80 } { &self.field_without_port } else { &self.field }
    }

    /// Returns the name or address before the port, with the brackets of an IPv6 address. Refuses other forms than
    /// `name:port`.
    fn name_of(host: &str) -> Result<&str, PlanError> {
        let wrong = || PlanError::new(format!("host \"{host}\" is not of the form name:port"));
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = name.starts_with('[') && name.ends_with(']');
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if port.parse::<u16>().is_err() || name.is_empty() || !(bracketed || name.chars().all(plain)) {
            return Err(wrong());
        }
        Ok(name)
    }

    /// Creates the host from the result of its lookup. `host` is the whole text, such as `name:port`, and `name` its
    /// part before the port. Fails if the lookup failed or has no address.
    fn with(host: &str, name: &str, addresses: std::io::Result<Vec<SocketAddr>>) -> Result<Self, PlanError> {
        let addresses =
            addresses.map_err(|error| PlanError::new(format!("host \"{host}\" cannot be resolved: {error}")))?;
        if addresses.is_empty() {
            return Err(PlanError::new(format!("host \"{host}\" has no address")));
        }
        Ok(Self {
            text: host.to_owned(),
            name: name.to_owned(),
            field: format!("host: {host}\r\n").into_bytes(),
            field_without_port: format!("host: {name}\r\n").into_bytes(),
            port: addresses[0].port(),
            addresses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_both_kinds_are_hosts() {
        assert_eq!(Host::resolve("127.0.0.1:9200").unwrap().addresses, ["127.0.0.1:9200".parse().unwrap()]);
        assert_eq!(Host::resolve("[::1]:9200").unwrap().addresses, ["[::1]:9200".parse().unwrap()]);
        let local = Host::resolve("localhost:9200").unwrap();
        assert!(local.addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 9200));
        assert_eq!(local.field(false), b"host: localhost:9200\r\n");
        let (https, http) = (Host::resolve("[::1]:443").unwrap(), Host::resolve("localhost:80").unwrap());
        assert_eq!((https.field(true), https.field(false)), (&b"host: [::1]\r\n"[..], &b"host: [::1]:443\r\n"[..]));
        assert_eq!(
            (http.field(true), http.field(false)),
            (&b"host: localhost:80\r\n"[..], &b"host: localhost\r\n"[..])
        );
    }

    #[test]
    fn messages_name_invalid_hosts() {
        for host in
            ["localhost", "localhost:", ":9200", "localhost:99999", "http://localhost:9200", "a b:1", "::1:9200", ""]
        {
            assert_eq!(
                Host::resolve(host).unwrap_err().message,
                format!("host \"{host}\" is not of the form name:port")
            );
        }
        let error = Host::resolve("no-such-host.invalid:9200").unwrap_err().message;
        assert!(error.starts_with("host \"no-such-host.invalid:9200\" cannot be resolved: "), "{error}");
    }

    #[test]
    fn an_unreachable_node_is_retried_by_one_client_with_back_off() {
        let node = TargetNode::new(0, Host::resolve("127.0.0.1:1").unwrap(), true);
        let mut now = 0;
        // All its clients are refused a connection.
        (0..10).for_each(|_| node.fall(now, "refused"));
        for wait in [100, 200, 400, 500, 500] {
            assert!(node.is_down());
            assert!(!node.claim(now + wait - 1));
            now += wait;
            assert!(node.claim(now));
            assert!(!node.claim(now + 10_000), "another client is checking");
            node.postpone(now, "refused again");
        }
        node.rise();
        assert!(!node.is_down());
        node.fall(now, "refused");
        assert!(node.claim(now + 100));
        node.release();
        assert!(node.claim(now + 100), "the other client has stopped");
    }

    #[tokio::test]
    async fn names_are_looked_up_like_resolved_ones() {
        let host = Host::look_up("localhost:9200").await.unwrap();
        assert!(host.addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 9200));
        assert_eq!(Host::look_up("[::1]:9200").await.unwrap().addresses, ["[::1]:9200".parse().unwrap()]);
        assert!(Host::look_up("nonsense").await.unwrap_err().message.contains("name:port"));
    }

    #[test]
    fn a_lookup_leaves_the_thread_to_others() {
        // The only thread for lookups is busy until the second future releases it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let (release, busy) = std::sync::mpsc::channel::<()>();
        let released = std::cell::Cell::new(false);
        runtime.unwrap().block_on(async {
            tokio::task::spawn_blocking(move || busy.recv());
            let look_up = async {
                let looked_up = Host::look_up("no-such-host.invalid:9200").await;
                assert!(looked_up.unwrap_err().message.contains("cannot be resolved"));
                assert!(released.get(), "the lookup blocked the thread");
            };
            tokio::join!(look_up, async {
                released.set(true);
                release.send(()).unwrap();
            });
        });
    }
}
