//! Assigns clients to nodes while nodes join, leave, fail and recover.
//!
//! With a fixed spread every client has a home among the target's nodes: client *i* starts at host *i* mod *n*. When
//! the hosts change, the fewest clients move, and each node ends up with the number of a fresh start. If a
//! home is down, its clients use other nodes until it accepts connections again. A client detects changes with one
//! relaxed load per request, and takes a lock only after a change of hosts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use loadframe_engine::driver::Nodes;
use loadframe_engine::plan::{PlanError, Spread};
use loadframe_engine::reactor;

use super::deadline::Limit;
use super::target_node::{Host, TargetNode};
use super::tls::Tls;
use super::wire::Wire;

/// Time limit of the check whether a node is back.
const PROBE: Duration = Duration::from_secs(1);

/// The nodes of one target.
#[derive(Debug)]
pub struct Topology {
    pub(super) spread: Spread,
    /// The host at which each client starts, if the plan gives it.
    homes: Vec<u64>,
    tls: Option<Tls>,
    began: Instant,
    /// Number of changes of the hosts.
    pub(super) epoch: AtomicU64,
    shape: Mutex<Shape>,
}

/// Nodes and clients, behind the topology's lock.
#[derive(Debug)]
pub(super) struct Shape {
    /// Every node that the target ever had, by number.
    nodes: Vec<Arc<TargetNode>>,
    pub(super) members: Members,
    /// The current clients, by slot.
    pub(super) clients: Vec<Option<ClientHome>>,
}

/// The nodes of the target, in the order of its hosts.
pub(super) type Members = Arc<[Arc<TargetNode>]>;

/// A client and its home.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientHome {
    client: u64,
    /// Number of its home.
    home: u16,
}

/// The nodes among which one worker's clients choose.
struct Choice {
    topology: Arc<Topology>,
    seen: u64,
    members: Members,
    worker: u64,
    workers: u64,
    /// Whether the engine, not the driver, chooses the node.
    applies: Box<dyn Fn() -> bool>,
    /// Per member, the number of this worker's clients that start there.
    weights: Vec<u32>,
    available: Vec<(u16, u32)>,
}

impl Topology {
    /// Resolves the hosts, which blocks, and refuses an empty list and duplicates.
    /// Each counts as up until it refuses a connection.
    pub fn new(hosts: &[String], spread: Spread, tls: Option<Tls>) -> Result<Self, PlanError> {
        let hosts = resolve(hosts)?;
        let node = |(number, host)| Arc::new(TargetNode::new(number as u16, host, true));
        let nodes: Vec<_> = hosts.into_iter().enumerate().map(node).collect();
        let members = nodes.as_slice().into();
        let shape = Mutex::new(Shape { nodes, members, clients: Vec::new() });
        Ok(Self { spread, homes: Vec::new(), tls, began: Instant::now(), epoch: AtomicU64::new(0), shape })
    }

    /// Starts client *i* at the host with index `homes[i]`, repeating the list. The usual spread applies for an index
    /// without a host, and after a change of hosts.
    pub fn with_homes(self, homes: Vec<u64>) -> Self {
        Self { homes, ..self }
    }

    /// Returns the host at which a client starts, as an index below the number of `hosts`: the one that the plan gives
    /// while the hosts are unchanged, else by the client's number in turn.
    fn first_home(&self, client: u64, hosts: u64) -> u64 {
        let told = !self.homes.is_empty() && self.epoch.load(Ordering::Relaxed) == 0;
        let place = told.then(|| self.homes[(client % self.homes.len() as u64) as usize]);
        place.filter(|place| *place < hosts).unwrap_or(client % hosts)
    }

    /// Changes the hosts under load. New and returning hosts count as down, and get no clients, until a check has
    /// reached them. A returning host keeps its number. Blocks while it resolves names. Refuses an empty list,
    /// duplicates and hosts that cannot be resolved, and then changes nothing.
    pub fn set_hosts(&self, hosts: &[String]) -> Result<(), PlanError> {
        let hosts = resolve(hosts)?;
        let mut shape = self.shape();
        let mut members = Vec::with_capacity(hosts.len());
        for host in hosts {
            let stays = shape.members.iter().find(|node| node.host.text == host.text).cloned();
            members.push(match stays {
                Some(node) => node,
                None => shape.join(host)?,
            });
        }
        shape.members = members.into();
        shape.settle();
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns all hosts that the target ever had, in the order of their numbers.
    pub fn hosts(&self) -> Vec<String> {
        self.shape().nodes.iter().map(|node| node.host.text.clone()).collect()
    }

    /// Returns the current hosts that refuse connections, each with the reason.
    pub fn unreachable(&self) -> Vec<(String, String)> {
        let refusal = |node: &Arc<TargetNode>| node.refusal().map(|why| (node.host.text.clone(), why));
        self.members().iter().filter_map(refusal).collect()
    }

    /// Returns the current nodes, in the order of the hosts.
    pub fn members(&self) -> Members {
        self.shape().members.clone()
    }

    /// Returns the number of connections that a client needs: 1 with a fixed spread, otherwise one per current node.
    pub fn connections(&self) -> u64 {
        if self.spread == Spread::Fixed { 1 } else { self.members().len() as u64 }
    }

    /// Returns the nodes for the clients of worker `worker` of `workers`; there are none while `applies` is false.
    /// `None` unless the spread is fixed.
    pub fn choice(
        self: &Arc<Self>,
        worker: u64,
        workers: u64,
        applies: impl Fn() -> bool + 'static,
    ) -> Option<Box<dyn Nodes>> {
        if self.spread != Spread::Fixed {
            return None;
        }
        let mut choice = Choice {
            topology: self.clone(),
            seen: self.epoch.load(Ordering::Acquire),
            members: self.members(),
            worker,
            workers,
            applies: Box::new(applies),
            weights: Vec::new(),
            available: Vec::new(),
        };
        choice.weigh();
        Some(Box::new(choice))
    }

    /// Adds a client. Returns its slot, the epoch, the members and the index of its home among them.
    pub(super) fn join_client(&self, client: u64) -> (usize, u64, Members, usize) {
        let mut shape = self.shape();
        let seen = self.epoch.load(Ordering::Acquire);
        let members = shape.members.clone();
        let home = self.first_home(client, members.len() as u64) as usize;
        let slot = shape.clients.iter().position(Option::is_none).unwrap_or(shape.clients.len());
        let joined = Some(ClientHome { client, home: members[home].number });
        match shape.clients.get_mut(slot) {
            Some(free) => *free = joined,
            None => shape.clients.push(joined),
        }
        (slot, seen, members, home)
    }

    /// Locks and returns the nodes and clients. Panics if a thread panicked while it held the lock.
    pub(super) fn shape(&self) -> MutexGuard<'_, Shape> {
        self.shape.lock().expect("no thread panics while it holds the lock")
    }

    /// Returns the time since creation, in milliseconds.
    pub(super) fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Starts to check in the background whether a down node accepts connections, within 1 s.
    /// Does nothing if a check is running or not yet due. The result is recorded in the node.
    pub(super) fn probe(self: &Arc<Self>, node: &Arc<TargetNode>) {
        if !node.claim(self.now()) {
            return;
        }
        let claim = Claim { topology: self.clone(), node: node.clone() };
        reactor::spawn(async move {
            let Claim { topology, node } = &claim;
            match Wire::connect(&node.host, topology.tls.as_ref(), Limit::starting_now(PROBE)).await {
                Ok(_) => node.rise(),
                Err(trouble) => node.postpone(topology.now(), &trouble.message),
            }
        });
    }
}

impl Choice {
    /// Sets each member's weight: the number of this worker's clients that start there, if the plan gives their homes
    /// and the hosts are unchanged; otherwise 1.
    fn weigh(&mut self) {
        let homes = &self.topology.homes;
        let told = !homes.is_empty() && self.seen == 0;
        self.weights.clear();
        self.weights.resize(self.members.len(), u32::from(!told));
        if told {
            let (count, hosts) = (homes.len() as u64, self.members.len() as u64);
            for client in (self.worker..self.worker.max(count - 1) + 1).step_by(self.workers as usize) {
                self.weights[self.topology.first_home(client, hosts) as usize] += 1;
            }
        }
    }
}

impl Nodes for Choice {
    /// Returns the numbers and weights of the up nodes that have a weight. If there are none, returns the other up
    /// nodes, with weight 1; if all nodes are down, the nodes that have a weight. Empty while `applies` is false.
    /// Starts checks of down nodes that have a weight.
    fn available(&mut self) -> &[(u16, u32)] {
        if self.topology.epoch.load(Ordering::Relaxed) != self.seen {
            {
                let shape = self.topology.shape();
                self.seen = self.topology.epoch.load(Ordering::Acquire);
                self.members = shape.members.clone();
            }
            self.weigh();
        }
        self.available.clear();
        if !(self.applies)() {
            return &self.available;
        }
        let weighted = || self.members.iter().zip(&self.weights).filter(|(_, weight)| **weight > 0);
        for (node, weight) in weighted() {
            if node.is_down() {
                self.topology.probe(node);
            } else {
                self.available.push((node.number, *weight));
            }
        }
        if self.available.is_empty() {
            self.available.extend(self.members.iter().filter(|node| !node.is_down()).map(|node| (node.number, 1)));
        }
        if self.available.is_empty() {
            self.available.extend(weighted().map(|(node, weight)| (node.number, *weight)));
        }
        &self.available
    }
}

/// A running check whether a node is back. Dropping it early permits another check.
struct Claim {
    topology: Arc<Topology>,
    node: Arc<TargetNode>,
}

impl Drop for Claim {
    /// Permits another check, if this one had no result.
    fn drop(&mut self) {
        self.node.release();
    }
}

impl Shape {
    /// Returns the number of the home of the client in a slot; `None` for a free slot.
    pub(super) fn home(&self, slot: usize) -> Option<u16> {
        self.clients[slot].map(|client| client.home)
    }

    /// Frees the slot of a client that has ended.
    pub(super) fn remove_client(&mut self, slot: usize) {
        self.clients[slot] = None;
    }

    /// Adds a node, which counts as down, with its old number if the target had it before. Fails after 65,536 nodes.
    fn join(&mut self, host: Host) -> Result<Arc<TargetNode>, PlanError> {
        let known = self.nodes.iter().position(|node| node.host.text == host.text);
        let number = known.unwrap_or(self.nodes.len());
        let number = u16::try_from(number).map_err(|_| PlanError::new(format!("there were {number} nodes already")))?;
        let node = Arc::new(TargetNode::new(number, host, false));
        match known {
            Some(number) => self.nodes[number] = node.clone(),
            None => self.nodes.push(node.clone()),
        }
        Ok(node)
    }

    /// Moves the fewest clients so that each member has as many clients as after a fresh start. The moving clients are
    /// spread over the client numbers. So each member also gets its part while only the first clients have started.
    fn settle(&mut self) {
        let members = self.members.clone();
        let mut room = vec![0_u64; members.len()];
        for client in self.clients.iter().flatten() {
            room[(client.client % members.len() as u64) as usize] += 1;
        }
        let mut homes = vec![Vec::new(); members.len()];
        let mut moving = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            let Some(ClientHome { client, home }) = *client else { continue };
            match members.iter().position(|node| node.number == home) {
                Some(home) => homes[home].push((client, index)),
                None => moving.push((client, index)),
            }
        }
        for (room, mut here) in room.iter_mut().zip(homes) {
            here.sort_unstable();
            let (count, stay) = (here.len() as u64, (*room).min(here.len() as u64));
            // Of `count` clients, `stay` keep their home: those nearest to even steps, including the first.
            let stays = |place: u64| ((place + 1) * stay).div_ceil(count) > (place * stay).div_ceil(count);
            moving.extend(here.into_iter().zip(0..).filter(|(_, place)| !stays(*place)).map(|(client, _)| client));
            *room -= stay;
        }
        moving.sort_unstable();
        for (_, index) in moving {
            let Some(place) = (0..room.len()).rev().max_by_key(|place| room[*place]).filter(|place| room[*place] > 0)
            else {
                return;
            };
            room[place] -= 1;
            if let Some(client) = &mut self.clients[index] {
                client.home = members[place].number;
            }
        }
    }
}

/// Resolves the hosts, in their order. Refuses an empty list, duplicates and more than 65,535 hosts.
fn resolve(hosts: &[String]) -> Result<Vec<Host>, PlanError> {
    if hosts.is_empty() {
        return Err(PlanError::new("the target has no hosts"));
    }
    if hosts.len() > usize::from(u16::MAX) {
        return Err(PlanError::new(format!("{} hosts are more than {}", hosts.len(), u16::MAX)));
    }
    if let Some(twice) = hosts.iter().enumerate().find(|(index, host)| hosts[..*index].contains(host)) {
        return Err(PlanError::new(format!("host \"{}\" is listed twice", twice.1)));
    }
    hosts.iter().map(|host| Host::resolve(host)).collect()
}
