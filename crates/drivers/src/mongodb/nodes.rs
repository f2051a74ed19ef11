//! State shared by all clients of a target: whether its hosts are equivalent (a single server, routers) or members of a
//! replica set, and which member is the primary.
//!
//! A member reports its role on request. The driver asks before the load, after a failure that suggests an election,
//! when the hosts change, and every few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bson::Document;
use bson::oid::ObjectId;
use futures_util::future::join_all;
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::{PlanError, Spread};
use loadframe_engine::util::draw::Draw;

use super::connection::NodeConnection;
use super::error;
use super::login::User;
use super::operation::Prefer;
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::discovery::DiscoveryError;
use crate::net::known::Known;
use crate::net::refresh_throttle::{Refresh, RefreshThrottle};
use crate::net::target_node::Host;
use crate::net::topology::Topology;

/// Time limit for a node's reply with its role.
const PATIENCE: Duration = Duration::from_secs(2);

/// The kind of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// No host has answered yet.
    Unknown,
    /// Any host can serve any request.
    Alone,
    /// Members of a replica set.
    Set,
}

/// A replica set as its members last described it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The number of the primary, if there is one.
    pub primary: Option<u16>,
    /// The numbers of the secondaries.
    pub secondaries: Vec<u16>,
    /// Members that do not answer, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// The nodes of a target.
#[derive(Debug)]
pub struct MongoNodes {
    /// The configured hosts. Members of a set list the others.
    pub topology: Arc<Topology>,
    /// Settings of connections to the nodes.
    pub connect_options: ConnectOptions<User>,
    spread: Spread,
    known: Known,
    mode: AtomicU8,
    members: ArcSwap<Members>,
    refresh_throttle: RefreshThrottle,
}

/// A host's report about itself; for a member, its roles, the hosts of the set and its own address.
enum HostReport {
    /// See [`Mode::Alone`].
    Alone,
    /// A host that has left the set or has not joined it yet.
    Outside,
    Member {
        primary: bool,
        secondary: bool,
        others: Vec<String>,
        myself: Option<String>,
        /// The election that made it the primary; later ones have greater ids.
        election: Option<ObjectId>,
    },
}

impl MongoNodes {
    /// Creates the state without contacting any node. Resolves the hosts, which blocks; refuses an empty list,
    /// duplicates and unknown names.
    pub fn new(hosts: &[String], spread: Spread, connect_options: ConnectOptions<User>) -> Result<Self, PlanError> {
        Ok(Self {
            topology: Arc::new(Topology::new(hosts, spread, None)?),
            connect_options,
            spread,
            known: Known::default(),
            mode: AtomicU8::new(Mode::Unknown as u8),
            members: ArcSwap::default(),
            refresh_throttle: RefreshThrottle::default(),
        })
    }

    /// Returns the kind of hosts.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            1 => Mode::Alone,
            2 => Mode::Set,
            _ => Mode::Unknown,
        }
    }

    /// Returns the members as last described.
    pub fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Returns all hosts that the target ever had, by their numbers in the records.
    pub fn hosts(&self) -> Vec<String> {
        if self.mode() == Mode::Set { self.known.texts() } else { self.topology.hosts() }
    }

    /// Returns the hosts that accept no connections at present, each with the reason.
    pub fn unreachable(&self) -> Vec<(String, String)> {
        if self.mode() == Mode::Set { self.members().missing.clone() } else { self.topology.unreachable() }
    }

    /// Changes the hosts, and marks the members as possibly outdated. The hosts of a set list its members. Refuses
    /// hosts that cannot be resolved.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        self.topology.set_hosts(hosts)?;
        self.doubt();
        Ok(())
    }

    /// Returns the number of the member for a request of client number `client`: members that fit take turns, or
    /// share the clients with a fixed spread. Fails and marks the members as possibly outdated if none fits `prefer`.
    pub fn pick(&self, prefer: Prefer, client: u64, draw: &Draw) -> Result<u16, Failure> {
        let turn = draw.turn_of(client, self.spread == Spread::Fixed);
        self.members.load().pick(prefer, turn).ok_or_else(|| {
            self.doubt();
            let wanted = if prefer == Prefer::Secondary { "secondary" } else { "primary" };
            Failure::new(ErrorClass::Connect, format!("the replica set has no {wanted} now"))
        })
    }

    /// Returns the address of the member with that number; members that left keep theirs. Fails if none ever had it.
    pub fn host(&self, number: u16) -> Result<Arc<Host>, Failure> {
        let unknown = || Failure::new(ErrorClass::Connect, "the replica set names a member that is not known");
        self.known.host(number).ok_or_else(unknown)
    }

    /// Marks the known members as possibly outdated.
    pub fn doubt(&self) {
        self.refresh_throttle.doubt();
    }

    /// Returns a refresh to one caller if the members must be queried again. The caller must then call `discover`, and end
    /// the refresh.
    pub fn claim(&self) -> Option<Refresh> {
        self.refresh_throttle.claim()
    }

    /// Queries all hosts, and the members that they list, for their roles. Schedules the next query of a replica set.
    /// The error is the last host's, if none answers.
    pub async fn discover(&self) -> Result<(), DiscoveryError> {
        let outcome = self.ask_all().await;
        if self.mode() == Mode::Set {
            let members = self.members();
            if members.primary.is_none() || !members.missing.is_empty() || outcome.is_err() {
                self.refresh_throttle.watch();
            } else {
                // Members may join or change roles without a failed request.
                self.refresh_throttle.refresh();
            }
        }
        outcome
    }

    /// Queries all hosts, and the members that they list, in rounds of parallel queries. Stores the kind of target and
    /// the members. Returns the last host's error if none answers.
    async fn ask_all(&self) -> Result<(), DiscoveryError> {
        let mut asked: Vec<String> = Vec::new();
        let mut next = self.topology.members().iter().map(|node| node.host.text.clone()).collect::<Vec<_>>();
        let mut members = Members::default();
        let mut missing = Vec::new();
        let mut newest = None;
        let mut last = None;
        let mut answered = false;
        while !next.is_empty() {
            let answers = join_all(next.iter().map(|host| self.ask(host))).await;
            asked.append(&mut next);
            let first = asked.len() - answers.len();
            for (at, report) in answers.into_iter().enumerate() {
                let host = &asked[first + at];
                match report {
                    Ok(HostReport::Alone) => {
                        self.mode.store(Mode::Alone as u8, Ordering::Release);
                        return Ok(());
                    }
                    Ok(HostReport::Outside) => {}
                    Ok(HostReport::Member { primary, secondary, others, myself, election }) => {
                        answered = true;
                        // The set may know a member by another name than the user.
                        if let Ok(number) = self.known.number(myself.as_deref().unwrap_or(host)).await {
                            if primary {
                                members.elect(number, election, &mut newest);
                            } else if secondary && !members.secondaries.contains(&number) {
                                members.secondaries.push(number);
                            }
                        }
                        next.extend(others);
                    }
                    Err(error) => {
                        missing.push((host.clone(), Failure::from(error.clone()).message));
                        last = Some(error);
                    }
                }
            }
            next.sort();
            next.dedup();
            next.retain(|host| !asked.contains(host));
        }
        if answered {
            members.secondaries.sort_unstable();
            members.missing = missing;
            self.members.store(Arc::new(members));
            self.mode.store(Mode::Set as u8, Ordering::Release);
            return Ok(());
        }
        // Without an answer, no member is available.
        if self.mode() == Mode::Set {
            let members = Members { missing, ..Members::default() };
            self.members.store(Arc::new(members));
        }
        last.map_or(Ok(()), Err)
    }

    /// Connects to a host and queries its role, within 2 s or the timeout if shorter. Fails if it is unreachable or
    /// rejects the user.
    async fn ask(&self, host: &str) -> Result<HostReport, DiscoveryError> {
        let resolved = Host::look_up(host).await.map_err(|error| Failure::new(ErrorClass::Connect, error.message))?;
        let limit = Limit::starting_now(PATIENCE.min(self.connect_options.timeout));
        match NodeConnection::default().hello(&resolved, &self.connect_options, limit).await {
            Ok(answer) => Ok(HostReport::read(&answer)),
            Err(failure) if error::is_refusal(&failure) => Err(DiscoveryError::Refused(failure)),
            Err(Failure { class: ErrorClass::Timeout, .. }) => {
                Err(Failure::new(ErrorClass::Connect, format!("{host} does not answer")).into())
            }
            Err(failure) => Err(failure.into()),
        }
    }
}

impl Members {
    /// Makes member `number` the primary, unless the known one was elected later. A primary that was frozen or cut off
    /// reports its former role until it hears of its successor. `newest`: election of the known primary.
    fn elect(&mut self, number: u16, election: Option<ObjectId>, newest: &mut Option<ObjectId>) {
        if self.primary.is_none() || election > *newest {
            self.primary = Some(number);
            *newest = election;
        }
    }

    /// Returns the number of the member that `prefer` selects, `None` if no member fits; members that fit equally take
    /// turns by `turn`.
    fn pick(&self, prefer: Prefer, turn: u64) -> Option<u16> {
        let secondary = || {
            let count = self.secondaries.len() as u64;
            (count > 0).then(|| self.secondaries[(turn % count) as usize])
        };
        match prefer {
            Prefer::Primary => self.primary,
            Prefer::PrimaryPreferred => self.primary.or_else(secondary),
            Prefer::Secondary => secondary(),
            Prefer::SecondaryPreferred => secondary().or(self.primary),
            Prefer::Nearest => {
                let all = self.secondaries.len() as u64 + u64::from(self.primary.is_some());
                let at = if all == 0 { return None } else { (turn % all) as usize };
                self.secondaries.get(at).copied().or(self.primary)
            }
        }
    }
}

impl HostReport {
    /// Reads a host's answer to `hello`: alone, outside of a set, or its role in a set and the set's hosts.
    fn read(answer: &Document) -> Self {
        let is = |name: &str| answer.get_bool(name).unwrap_or(false);
        if answer.get_str("setName").is_err() {
            return if is("isreplicaset") { Self::Outside } else { Self::Alone };
        }
        let mut others = Vec::new();
        for name in ["hosts", "passives"] {
            let hosts = answer.get_array(name).into_iter().flatten();
            others.extend(hosts.filter_map(|host| host.as_str().map(str::to_owned)));
        }
        Self::Member {
            primary: is("isWritablePrimary"),
            secondary: is("secondary"),
            others,
            myself: answer.get_str("me").ok().map(str::to_owned),
            election: answer.get_object_id("electionId").ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    /// Returns the state of a target on a port where no server listens.
    fn nodes() -> MongoNodes {
        MongoNodes::new(&["127.0.0.1:1".to_owned()], Spread::Fixed, ConnectOptions::plain()).unwrap()
    }

    #[test]
    fn a_request_goes_to_a_member_of_the_kind_that_it_prefers() {
        let members = Members { primary: Some(1), secondaries: vec![0, 2], missing: Vec::new() };
        let all = |prefer| (0..3).map(|turn| members.pick(prefer, turn)).collect::<Vec<_>>();
        assert_eq!(all(Prefer::Primary), [Some(1); 3]);
        assert_eq!(all(Prefer::PrimaryPreferred), [Some(1); 3]);
        assert_eq!(all(Prefer::Secondary), [Some(0), Some(2), Some(0)]);
        assert_eq!(all(Prefer::Nearest), [Some(0), Some(2), Some(1)]);
        let headless = Members { primary: None, ..members };
        assert_eq!(headless.pick(Prefer::Primary, 0), None);
        assert_eq!(headless.pick(Prefer::PrimaryPreferred, 1), Some(2));
        let lonely = Members { primary: Some(4), ..Members::default() };
        assert_eq!(lonely.pick(Prefer::Secondary, 0), None);
        assert_eq!(lonely.pick(Prefer::SecondaryPreferred, 0), Some(4));
        assert_eq!(Members::default().pick(Prefer::Nearest, 0), None);
    }

    #[test]
    fn a_router_and_a_single_server_are_no_members() {
        for answer in [doc! {"isWritablePrimary": true}, doc! {"isWritablePrimary": true, "msg": "isdbgrid"}] {
            assert!(matches!(HostReport::read(&answer), HostReport::Alone));
        }
        assert!(matches!(HostReport::read(&doc! {"isreplicaset": true}), HostReport::Outside));
        let answer =
            doc! {"setName": "s", "secondary": true, "hosts": ["a:1", "b:1"], "passives": ["c:1"], "me": "a:1"};
        let HostReport::Member { primary, secondary, others, myself, .. } = HostReport::read(&answer) else { panic!() };
        assert!(!primary && secondary);
        assert_eq!((others.len(), myself.as_deref()), (3, Some("a:1")));
    }

    #[test]
    fn of_two_members_that_call_themselves_primary_the_later_elected_one_counts() {
        let election = |term: u8| {
            let mut id = [0; 12];
            id[11] = term;
            let answer = doc! {"setName": "s", "isWritablePrimary": true, "electionId": ObjectId::from_bytes(id)};
            let HostReport::Member { election, .. } = HostReport::read(&answer) else { panic!() };
            election
        };
        for order in [[(0, election(1)), (1, election(2))], [(1, election(2)), (0, election(1))]] {
            let (mut members, mut newest) = (Members::default(), None);
            order.into_iter().for_each(|(number, election)| members.elect(number, election, &mut newest));
            assert_eq!(members.primary, Some(1));
        }
    }

    #[tokio::test]
    async fn an_unreachable_host_is_a_connect_failure() {
        let nodes = nodes();
        let error = nodes.discover().await.unwrap_err();
        let refused = matches!(error, DiscoveryError::Refused(_));
        let failure = Failure::from(error);
        assert!(!refused, "{}", failure.message);
        assert_eq!((failure.class, nodes.mode()), (ErrorClass::Connect, Mode::Unknown));
    }
}
