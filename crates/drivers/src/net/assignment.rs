//! The node of each request: one client's view of the topology.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loadframe_engine::plan::Spread;

use super::target_node::{Busy, TargetNode};
use super::topology::{Members, Topology};

/// One client's view of the nodes. Dropping it frees its slot.
pub struct Assignment {
    topology: Arc<Topology>,
    client: u64,
    /// Index among the clients of the topology.
    slot: usize,
    seen: u64,
    pub(super) members: Members,
    /// Index of the home among the members.
    pub(super) home: usize,
    /// Index of the currently selected node.
    at: usize,
    /// Number of the home that the engine chose, and whether connections to other nodes stay open.
    chosen: Option<(u16, bool)>,
}

impl Assignment {
    /// Assigns a home to client number `client`.
    pub fn new(topology: Arc<Topology>, client: u64) -> Self {
        let (slot, seen, members, home) = topology.join_client(client);
        Self { topology, client, slot, seen, members, home, at: home, chosen: None }
    }

    /// Checks whether the hosts changed, and returns true if so. The caller must then close connections to nodes that
    /// left.
    pub fn look(&mut self) -> bool {
        if self.topology.epoch.load(Ordering::Relaxed) == self.seen {
            return false;
        }
        let at = self.node().number;
        {
            let shape = self.topology.shape();
            self.seen = self.topology.epoch.load(Ordering::Acquire);
            self.members = shape.members.clone();
            let home = self.chosen.map(|(node, _)| node).or(shape.home(self.slot));
            self.home = self.members.iter().position(|node| Some(node.number) == home).unwrap_or(0);
        }
        let still = self.members.iter().position(|node| node.number == at);
        self.at = still.unwrap_or(self.home);
        true
    }

    /// The number of the client's home.
    pub fn home(&self) -> u16 {
        self.members[self.home].number
    }

    /// Makes a node the client's home, as chosen by the engine. `keep`: connections to other nodes stay open.
    pub fn turn_to(&mut self, number: u16, keep: bool) {
        self.chosen = Some((number, keep));
        if self.members[self.home].number != number
            && let Some(home) = self.members.iter().position(|node| node.number == number)
        {
            self.home = home;
        }
    }

    /// Whether the node belongs to the target, according to the client's view.
    pub fn has(&self, number: usize) -> bool {
        self.members.iter().any(|node| usize::from(node.number) == number)
    }

    /// Selects the node for a request by its `turn`, up or down.
    pub fn turn(&mut self, turn: u64) {
        match self.topology.spread {
            Spread::RoundRobin => self.at = (turn % self.members.len() as u64) as usize,
            Spread::All => self.at = self.idlest(turn),
            Spread::Fixed if self.at == self.home => {}
            Spread::Fixed if !self.members[self.home].is_down() => self.at = self.home,
            Spread::Fixed => self.topology.probe(&self.members[self.home]),
        }
    }

    /// Selects another node if the selected one lacks a connection and is known to be down.
    pub fn detour(&mut self, turn: u64) {
        // A single node is always tried.
        if self.node().is_down() && self.members.len() > 1 {
            self.topology.probe(self.node());
            self.avoid(match self.topology.spread {
                Spread::RoundRobin | Spread::All => turn,
                Spread::Fixed => self.client,
            });
        }
    }

    /// Whether a client keeps connections to formerly selected nodes.
    pub fn keeps(&self) -> bool {
        self.topology.spread != Spread::Fixed || self.chosen.is_some_and(|(_, keep)| keep)
    }

    /// Returns the index of the up node with the fewest requests in flight; ties take turns.
    fn idlest(&self, k: u64) -> usize {
        let count = self.members.len();
        let first = (k % count as u64) as usize;
        let up = |at: &usize| {
            let down = self.members[*at].is_down();
            if down {
                self.topology.probe(&self.members[*at]);
            }
            !down
        };
        (first..first + count)
            .map(|at| at % count)
            .filter(up)
            .min_by_key(|at| self.members[*at].busy())
            .unwrap_or(first)
    }

    /// Counts a request in flight to the selected node, if the spread needs the count.
    pub fn occupy(&self) -> Option<Busy> {
        (self.topology.spread == Spread::All).then(|| Busy::new(self.node().clone()))
    }

    /// Selects one of the up nodes, or the next node if all are down.
    fn avoid(&mut self, turn: u64) {
        let up = || (0..self.members.len()).filter(|at| !self.members[*at].is_down());
        let pick = turn % (up().count() as u64).max(1);
        self.at = up().nth(pick as usize).unwrap_or((self.at + 1) % self.members.len());
    }

    /// The selected node.
    pub fn node(&self) -> &Arc<TargetNode> {
        &self.members[self.at]
    }

    /// Records that the selected node refused a connection, and the reason.
    pub fn refused(&self, why: &str) {
        self.node().fall(self.topology.now(), why);
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        self.topology.shape().remove_client(self.slot);
    }
}
