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
    members: Members,
    /// Index of the home among the members.
    home: usize,
    /// Index of the currently selected node.
    at: usize,
    /// Number of the home that the engine chose, and whether connections to other nodes stay open.
    chosen: Option<(u16, bool)>,
}

impl Assignment {
    /// Adds client number `client` to the topology, and selects its home. Takes the topology's lock.
    pub fn new(topology: Arc<Topology>, client: u64) -> Self {
        let (slot, seen, members, home) = topology.join_client(client);
        Self { topology, client, slot, seen, members, home, at: home, chosen: None }
    }

    /// Updates the client's view if the hosts have changed since the last call, and returns whether they have. If the
    /// selected node has left, selects the home. After true, the caller must close connections to nodes that left.
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

    /// Returns the number of the client's home, the node that it uses with a fixed spread while that is up.
    pub fn home(&self) -> u16 {
        self.members[self.home].number
    }

    /// Makes node `number` the client's home, as chosen by the engine; the next `turn` selects it. If the client's view
    /// lacks the node, the home changes when the node joins. `keep`: connections to other nodes stay open.
    pub fn turn_to(&mut self, number: u16, keep: bool) {
        self.chosen = Some((number, keep));
        if self.members[self.home].number != number
            && let Some(home) = self.members.iter().position(|node| node.number == number)
        {
            self.home = home;
        }
    }

    /// Returns whether node `number` belongs to the target, according to the last `look`.
    pub fn has(&self, number: usize) -> bool {
        self.members.iter().any(|node| usize::from(node.number) == number)
    }

    /// Selects the node for a request by the spread: the node at index `turn` modulo the number of nodes (round robin),
    /// the up node with the fewest requests in flight (all), or the home (fixed). A client that has left its home
    /// because it was down returns once it is up; until then this starts checks of the home. The selected node may be
    /// down.
    pub fn turn(&mut self, turn: u64) {
        match self.topology.spread {
            Spread::RoundRobin => self.at = (turn % self.members.len() as u64) as usize,
            Spread::All => self.at = self.idlest(turn),
            Spread::Fixed if self.at == self.home => {}
            Spread::Fixed if !self.members[self.home].is_down() => self.at = self.home,
            Spread::Fixed => self.topology.probe(&self.members[self.home]),
        }
    }

    /// Selects an up node if the selected one is down and there are others, and starts a check of the down one. The
    /// choice follows `turn`, or the client's number with a fixed spread. Called when the selected node lacks a
    /// connection.
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

    /// Returns whether a client keeps connections to formerly selected nodes open.
    /// With a fixed spread, only if the last `turn_to` asked for it; otherwise always.
    pub fn keeps(&self) -> bool {
        self.topology.spread != Spread::Fixed || self.chosen.is_some_and(|(_, keep)| keep)
    }

    /// Returns the index, among the members, of the up node with the fewest requests in flight; ties take turns by `k`.
    /// If all are down, returns `k` modulo the number of members. Starts checks of down nodes.
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

    /// Counts a request in flight to the selected node until the result is dropped; `None` if the spread does not need
    /// the count.
    pub fn occupy(&self) -> Option<Busy> {
        (self.topology.spread == Spread::All).then(|| Busy::new(self.node().clone()))
    }

    /// Selects one of the up nodes by `turn`, or the next node if all are down.
    fn avoid(&mut self, turn: u64) {
        let up = || (0..self.members.len()).filter(|at| !self.members[*at].is_down());
        let pick = turn % (up().count() as u64).max(1);
        self.at = up().nth(pick as usize).unwrap_or((self.at + 1) % self.members.len());
    }

    /// Returns the selected node, which may be down.
    pub fn node(&self) -> &Arc<TargetNode> {
        &self.members[self.at]
    }

    /// Records that the selected node refused a connection, and `why`. The clients then avoid the node until it accepts
    /// one.
    pub fn refused(&self, why: &str) {
        self.node().fall(self.topology.now(), why);
    }
}

impl Drop for Assignment {
    /// Frees the client's slot in the topology.
    fn drop(&mut self) {
        self.topology.shape().remove_client(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns hosts with these ports on 127.0.0.1.
    fn hosts(ports: &[u16]) -> Vec<String> {
        ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// The home of each assignment, by its port.
    fn homes(assignments: &mut [Assignment]) -> Vec<u16> {
        let home = |assignment: &mut Assignment| {
            assignment.look();
            assignment.members[assignment.home].host.addresses[0].port()
        };
        assignments.iter_mut().map(home).collect()
    }

    /// Counts the clients of each home.
    fn counts(homes: &[u16]) -> BTreeMap<u16, usize> {
        homes.iter().fold(BTreeMap::new(), |mut counts, home| {
            *counts.entry(*home).or_default() += 1;
            counts
        })
    }

    #[test]
    fn a_change_moves_as_few_clients_as_possible_and_leaves_them_evenly_spread() {
        let topology = Arc::new(Topology::new(&hosts(&[1, 2, 3]), Spread::Fixed, None).unwrap());
        let mut assignments: Vec<Assignment> =
            (0..24).map(|client| Assignment::new(topology.clone(), client)).collect();
        let mut before = homes(&mut assignments);
        assert_eq!(before[..6], [1, 2, 3, 1, 2, 3]);
        for (now, moved) in [
            (&[1, 2, 3, 4][..], 6),
            (&[1, 3, 4], 6),
            (&[4, 3, 1], 0),
            (&[5, 6, 7], 24),
            (&[5], 16),
            (&[5, 1, 2, 3, 4, 6], 20),
        ] {
            topology.set_hosts(&hosts(now)).unwrap();
            let after = homes(&mut assignments);
            assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), moved, "{before:?} {after:?}");
            assert_eq!(counts(&after), now.iter().map(|port| (*port, 24 / now.len())).collect(), "{after:?}");
            before = after;
        }
    }

    #[test]
    fn each_node_gets_its_share_of_the_first_clients_too_when_the_others_have_not_come_yet() {
        let topology = Arc::new(Topology::new(&hosts(&[1]), Spread::Fixed, None).unwrap());
        let mut assignments: Vec<Assignment> =
            (0..12).map(|client| Assignment::new(topology.clone(), client)).collect();
        for now in [&[1, 2][..], &[1, 2, 3]] {
            topology.set_hosts(&hosts(now)).unwrap();
            let first = counts(&homes(&mut assignments)[..6]);
            assert_eq!(first.values().sum::<usize>(), 6);
            assert!(now.iter().all(|port| first.get(port).is_some_and(|count| *count >= 1)), "{first:?}");
        }
    }

    #[test]
    fn generators_that_share_the_clients_spread_them_evenly_together() {
        // Generator g of 4 has the clients g, g + 4, g + 8: all clients of a generator start at the same one of two
        // hosts.
        let mut all = Vec::new();
        for generator in 0..4 {
            let topology = Arc::new(Topology::new(&hosts(&[1, 2]), Spread::Fixed, None).unwrap());
            let mut assignments: Vec<Assignment> =
                (0..3).map(|n| Assignment::new(topology.clone(), generator + 4 * n)).collect();
            topology.set_hosts(&hosts(&[1, 2, 3])).unwrap();
            all.extend(homes(&mut assignments));
        }
        assert_eq!(counts(&all), BTreeMap::from([(1, 4), (2, 4), (3, 4)]));
    }

    #[test]
    fn a_plan_may_say_which_host_each_client_begins_at() {
        let topology = Topology::new(&hosts(&[1, 2, 3]), Spread::Fixed, None).unwrap().with_homes(vec![2, 2, 0, 7]);
        let topology = Arc::new(topology);
        let mut assignments: Vec<Assignment> = (0..5).map(|client| Assignment::new(topology.clone(), client)).collect();
        // An index beyond the hosts is ignored: client 3 starts at host 0, by its number.
        assert_eq!(homes(&mut assignments), [3, 3, 1, 1, 3]);
        topology.set_hosts(&hosts(&[1, 2])).unwrap();
        assert_eq!(counts(&homes(&mut assignments)), BTreeMap::from([(1, 3), (2, 2)]));
    }

    /// Checks that dropped clients do not count when the hosts change, and that their slots are used again.
    #[test]
    fn a_client_that_has_gone_takes_no_room() {
        let topology = Arc::new(Topology::new(&hosts(&[1]), Spread::Fixed, None).unwrap());
        let mut assignments: Vec<Assignment> =
            (0..100).map(|client| Assignment::new(topology.clone(), client)).collect();
        assignments.truncate(4);
        assignments.push(Assignment::new(topology.clone(), 4));
        topology.set_hosts(&hosts(&[1, 2])).unwrap();
        assert_eq!(counts(&homes(&mut assignments)), BTreeMap::from([(1, 3), (2, 2)]));
        assert_eq!(topology.shape().clients.len(), 100, "freed slots are used again");
    }
}
