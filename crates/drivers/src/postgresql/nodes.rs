//! Roles of a target's servers (primary or replica), shared by all its clients.
//!
//! The driver queries the roles before the load, after a failure that suggests a new primary, after a change of hosts,
//! and once a second while a server is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::{PlanError, Spread};
use loadframe_engine::util::draw::Draw;
use tokio_postgres::SimpleQueryMessage;

use super::connection::{ConnectOptions, NodeConnection};
use super::error::is_refusal;
use super::read_from::ReadFrom;
use crate::net::deadline::Limit;
use crate::net::refresh_throttle::{Refresh, RefreshThrottle};
use crate::net::target_node::Host;
use crate::net::topology::Topology;

/// Timeout of the role query.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shortest limit for the connection of a role query. A server that comes back is found only after a query that waited
/// for a silent address.
const REACH: Duration = Duration::from_millis(400);
/// The limit is at least this many times as long as the slowest role query so far, for distant servers.
const REACHES: u32 = 4;

/// Query for a server's role. A primary before a switchover is read-only.
const ROLE: &str = "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')";

/// Last known roles, by node number in the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// The server that takes writes, if any.
    pub primary: Option<u16>,
    /// The servers that follow the primary.
    pub replicas: Vec<u16>,
    /// Unresponsive servers, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// The servers of a target.
#[derive(Debug)]
pub struct PostgresNodes {
    /// The configured hosts.
    pub topology: Arc<Topology>,
    /// Options for connections to the servers.
    pub connect_options: ConnectOptions,
    spread: Spread,
    roles: ArcSwap<Roles>,
    known: AtomicBool,
    refresh_throttle: RefreshThrottle,
    /// Duration of the slowest role query so far, ms; 0 before the first.
    slowest: AtomicU64,
}

/// The role that a server reports.
enum Role {
    Primary,
    Replica,
    /// A read-only server that is not a replica.
    Leaving,
}

impl PostgresNodes {
    /// Creates it without connecting. Resolves the hosts, which blocks; refuses an empty list, duplicates and unknown
    /// names.
    pub fn new(hosts: &[String], spread: Spread, connect_options: ConnectOptions) -> Result<Self, PlanError> {
        Ok(Self {
            topology: Arc::new(Topology::new(hosts, spread, None)?),
            connect_options,
            spread,
            roles: ArcSwap::default(),
            known: AtomicBool::new(false),
            refresh_throttle: RefreshThrottle::default(),
            slowest: AtomicU64::new(0),
        })
    }

    /// Returns whether any server has reported its role.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Returns the last known roles.
    pub fn roles(&self) -> Arc<Roles> {
        self.roles.load_full()
    }

    /// Changes the hosts, and marks the roles as possibly out of date. Refuses hosts that cannot be resolved.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.topology.set_hosts(hosts)?;
        self.doubt();
        Ok(())
    }

    /// Returns the number of the server for a request of client number `client`: servers that fit take turns, or
    /// share the clients with a fixed spread. Fails and marks the roles as possibly out of date if none fits `from`.
    pub fn pick(&self, from: ReadFrom, client: u64, draw: &Draw) -> Result<u16, Failure> {
        let turn = draw.turn_of(client, self.spread == Spread::Fixed);
        self.roles.load().pick(from, turn).ok_or_else(|| {
            self.doubt();
            let wanted =
                if from == ReadFrom::Replica { "no replica answers now" } else { "no server takes writes now" };
            Failure::new(ErrorClass::Connect, wanted)
        })
    }

    /// Returns the host of the server with this number. Fails and marks the roles as possibly out of date if it has
    /// left.
    pub fn host(&self, number: u16) -> Result<Host, Failure> {
        match self.topology.members().iter().find(|node| node.number == number) {
            Some(node) => Ok(node.host.clone()),
            None => {
                self.doubt();
                Err(Failure::new(ErrorClass::Connect, "the server that was asked before has left"))
            }
        }
    }

    /// Marks the roles as possibly out of date.
    pub fn doubt(&self) {
        self.refresh_throttle.doubt();
    }

    /// Returns a refresh to one client if the roles must be queried again. The client must then call `discover`, and end
    /// the refresh.
    pub fn claim(&self) -> Option<Refresh> {
        self.refresh_throttle.claim()
    }

    /// Queries the roles of all hosts and stores them. Schedules another query while a server or the primary
    /// is missing. If none answers, the error is a refusal of this user, or else the last error.
    pub async fn discover(&self) -> Result<(), Failure> {
        let members = self.topology.members();
        let answers = join_all(members.iter().map(|node| self.ask(&node.host))).await;
        let mut roles = Roles::default();
        let mut refused: Option<Failure> = None;
        for (node, answer) in members.iter().zip(answers) {
            match answer {
                Ok(Role::Primary) => roles.primary = Some(node.number),
                Ok(Role::Replica) => roles.replicas.push(node.number),
                Ok(Role::Leaving) => {}
                Err(failure) => {
                    roles.missing.push((node.host.text.clone(), failure.message.clone()));
                    if !refused.as_ref().is_some_and(is_refusal) {
                        refused = Some(failure);
                    }
                }
            }
        }
        let answered = roles.missing.len() < members.len();
        if answered {
            self.known.store(true, Ordering::Release);
        }
        if roles.primary.is_none() || !roles.missing.is_empty() {
            self.refresh_throttle.watch();
        }
        self.roles.store(Arc::new(roles));
        match refused {
            Some(failure) if !answered => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the limit for the connection of a role query; `None` before the first query has succeeded.
    /// It is four times the longest role query so far, at least 400 ms.
    fn reach(&self) -> Option<Duration> {
        let slowest = Duration::from_millis(self.slowest.load(Ordering::Relaxed));
        self.is_known().then(|| REACH.max(slowest * REACHES))
    }

    /// Connects to a host and queries its role, within 2 s or the target's timeout, if that is shorter.
    /// Fails if it is unreachable or refuses the user.
    async fn ask(&self, host: &Host) -> Result<Role, Failure> {
        let limit = Limit::starting_now(PATIENCE.min(self.connect_options.timeout));
        let mut connection = NodeConnection::open(host, &self.connect_options, limit, self.reach()).await?;
        let told =
            limit.within(connection.run(|client| client.simple_query(ROLE))).await.ok_or_else(|| limit.missed())?;
        let told = told.map_err(|broken| broken.failure())?;
        self.slowest.fetch_max(limit.spent().as_millis() as u64, Ordering::Relaxed);
        let row = told.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0) == Some("t"), row.get(1) == Some("on"))),
            _ => None,
        });
        Ok(match row {
            Some((true, _)) => Role::Replica,
            Some((false, true)) => Role::Leaving,
            _ => Role::Primary,
        })
    }
}

impl Roles {
    /// Returns the number of the server that `from` selects, `None` if no server fits; servers that fit equally take
    /// turns by `turn`.
    fn pick(&self, from: ReadFrom, turn: u64) -> Option<u16> {
        let replica = || {
            let count = self.replicas.len() as u64;
            (count > 0).then(|| self.replicas[(turn % count) as usize])
        };
        match from {
            ReadFrom::Primary => self.primary,
            ReadFrom::Replica => replica(),
            ReadFrom::PreferReplica => replica().or(self.primary),
            ReadFrom::Any => {
                let all = self.replicas.len() as u64 + u64::from(self.primary.is_some());
                let at = if all == 0 { return None } else { (turn % all) as usize };
                self.replicas.get(at).copied().or(self.primary)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distant_servers_have_more_time_to_answer() {
        let hosts = ["127.0.0.1:5432".to_owned()];
        let nodes = PostgresNodes::new(&hosts, Spread::Fixed, ConnectOptions::plain(ReadFrom::Primary)).unwrap();
        assert_eq!(nodes.reach(), None, "how far the servers are is unknown");
        nodes.known.store(true, Ordering::Release);
        assert_eq!(nodes.reach(), Some(REACH));
        nodes.slowest.store(300, Ordering::Relaxed);
        assert_eq!(nodes.reach(), Some(Duration::from_millis(1200)));
    }

    /// Checks which server each `read_from` selects, by turn.
    #[test]
    fn a_request_goes_where_it_may_be_read() {
        let roles = Roles { primary: Some(1), replicas: vec![0, 2], missing: Vec::new() };
        let all = |from| (0..3).map(|turn| roles.pick(from, turn)).collect::<Vec<_>>();
        assert_eq!(all(ReadFrom::Primary), [Some(1); 3]);
        assert_eq!(all(ReadFrom::Replica), [Some(0), Some(2), Some(0)]);
        assert_eq!(all(ReadFrom::PreferReplica), [Some(0), Some(2), Some(0)]);
        assert_eq!(all(ReadFrom::Any), [Some(0), Some(2), Some(1)]);
        let alone = Roles { primary: Some(4), ..Roles::default() };
        assert_eq!((alone.pick(ReadFrom::Replica, 0), alone.pick(ReadFrom::PreferReplica, 0)), (None, Some(4)));
        let headless = Roles { primary: None, ..roles };
        assert_eq!((headless.pick(ReadFrom::Primary, 0), headless.pick(ReadFrom::Any, 1)), (None, Some(2)));
        assert_eq!(Roles::default().pick(ReadFrom::Any, 0), None);
    }
}
