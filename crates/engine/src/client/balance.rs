//! Even load over nodes: selects the node of each request, and an idle client connected to it.
//!
//! A client is connected to one node. Open streams, users and ingestion select among their clients, so that
//! each operation reaches each node equally often at every rate. Each worker counts separately, without
//! locks.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::{Stream, Worker};
use crate::driver::{Driver, Nodes};

/// A busy client switches nodes when its node is this many requests of an operation ahead of another.
const AHEAD: u64 = 16;

/// Requests of one worker's part of a stream, by operation and node.
pub(super) struct Balance {
    nodes: Box<dyn Nodes>,
    /// Node numbers and weights at the last selection.
    last: Vec<(u16, u32)>,
    /// Requests so far: by choice, then by node number.
    served: Vec<Vec<u64>>,
    /// Offset for ties, different for each worker and operation.
    first: usize,
    /// Maximum number of clients in this part of the stream.
    clients: u64,
}

impl Balance {
    /// Creates the request counts of `choices` operations, all 0; `None` if the driver selects the node of each
    /// request. `worker`: number of this worker among all. `clients`: number of its clients.
    pub(super) fn new(nodes: Option<Box<dyn Nodes>>, choices: usize, worker: u64, clients: u64) -> Option<Self> {
        let served = vec![Vec::new(); choices];
        nodes.map(|nodes| Self { nodes, last: Vec::new(), served, first: worker as usize, clients })
    }

    /// Returns the node with the fewest requests of operation `choice`, relative to its weight.
    /// First updates the list of nodes. Counts no request. `None` if the driver selects the node.
    fn least(&mut self, choice: usize) -> Option<u16> {
        self.refresh();
        let (count, served) = (self.last.len(), &self.served[choice]);
        // The share after one more request; compared without division.
        let share = |at: usize| (served[usize::from(self.last[at].0)] + 1, u64::from(self.last[at].1));
        (0..count)
            .map(|at| (at + self.first + choice) % count)
            .min_by(|&a, &b| {
                let ((a, of_a), (b, of_b)) = (share(a), share(b));
                (a * of_b).cmp(&(b * of_a))
            })
            .map(|at| self.last[at].0)
    }

    /// Returns the node for the next request of operation `choice` by a client at `node`, normally `node` itself.
    /// Returns the least-loaded node if `node` has left, if it is 16 or more requests ahead (relative to the weights),
    /// or if there are fewer clients than nodes. `None` if the driver selects the nodes. Updates the list of nodes;
    /// counts no request.
    fn near(&mut self, choice: usize, node: u16) -> Option<u16> {
        let least = self.least(choice)?;
        let weight = |node: u16| self.last.iter().find(|(number, _)| *number == node).map(|(_, weight)| *weight);
        let stays = weight(node).is_some_and(|weight| {
            let counts = &self.served[choice];
            let fair = counts[usize::from(least)] * u64::from(weight) / u64::from(self.weight_of(least));
            !self.keeps() && counts[usize::from(node)] < fair + AHEAD
        });
        Some(if stays { node } else { least })
    }

    /// Returns the weight of a node, at least 1; also 1 for a node that has left.
    fn weight_of(&self, node: u16) -> u32 {
        self.last.iter().find(|(number, _)| *number == node).map_or(1, |(_, weight)| (*weight).max(1))
    }

    /// Returns whether clients keep connections to several nodes open, because there are fewer clients than nodes.
    fn keeps(&self) -> bool {
        self.clients < self.last.len() as u64
    }

    /// Updates the list of nodes from the driver. A new node starts with the request count, relative to its weight, of
    /// the least-loaded node.
    fn refresh(&mut self) {
        let nodes = self.nodes.available();
        if nodes == self.last {
            return;
        }
        let most = nodes.iter().map(|(number, _)| usize::from(*number) + 1).max().unwrap_or(0);
        for served in &mut self.served {
            if served.len() < most {
                served.resize(most, 0);
            }
            let stayed = self.last.iter().filter(|(number, _)| nodes.iter().any(|(other, _)| other == number));
            let least = stayed.map(|&(number, weight)| served[usize::from(number)] / u64::from(weight.max(1))).min();
            for &(number, weight) in nodes {
                if !self.last.iter().any(|(known, _)| *known == number) {
                    let count = &mut served[usize::from(number)];
                    *count = (*count).max(least.unwrap_or(0) * u64::from(weight));
                }
            }
        }
        self.last.clear();
        self.last.extend_from_slice(nodes);
    }
}

impl Stream {
    /// Returns the first node of this worker's client number `client`, counted from 0: clients take the nodes in turn.
    /// Returns 0 if the driver selects the nodes, or if none is available.
    pub(super) fn first_node(&self, client: usize) -> u16 {
        let Some(balance) = &self.balance else { return 0 };
        let balance = &mut *balance.borrow_mut();
        balance.refresh();
        let count = balance.last.len();
        if count == 0 { 0 } else { balance.last[(client + balance.first) % count].0 }
    }

    /// Returns the least-loaded node for the next request of operation `choice`; `None` if the driver selects the
    /// node.
    pub(super) fn due_node(&self, choice: usize) -> Option<u16> {
        self.balance.as_ref()?.borrow_mut().least(choice)
    }

    /// Returns the node for the next request of operation `choice` by a client at `node`, usually the same node.
    /// `None` if the driver selects the node.
    pub(super) fn near_node(&self, choice: usize, node: u16) -> Option<u16> {
        self.balance.as_ref()?.borrow_mut().near(choice, node)
    }

    /// Counts a request of operation `choice`, or an iteration that starts with it, for `node`.
    /// Does nothing for `None`, or if the driver selects the nodes.
    pub(super) fn count_node(&self, choice: usize, node: Option<u16>) {
        if let (Some(balance), Some(node)) = (&self.balance, node) {
            balance.borrow_mut().served[choice][usize::from(node)] += 1;
        }
    }

    /// Returns the next number for operation `choice`, by which drivers select nodes in turn, and adds 1 to it.
    /// The first is the worker's number plus `choice`.
    pub(super) fn turn(&self, choice: usize) -> u64 {
        let turn = &self.turns[choice];
        turn.set(turn.get() + 1);
        turn.get() - 1 + self.share.index + choice as u64
    }
}

impl<D: Driver> Worker<D> {
    /// Switches a client to `node` from its next request on. Does nothing for `None`, or if the driver selects the
    /// nodes. `all`: keep its connections to other nodes.
    pub(super) fn turn_to(&self, stream: &Stream, connection: &mut D::Connection, node: Option<u16>, all: bool) {
        if let (Some(balance), Some(node)) = (&stream.balance, node) {
            self.phase.driver.turn_to(connection, node, all || balance.borrow().keeps());
        }
    }
}

/// Hand-over point between a stream and one client.
pub(super) struct ClientSlot<T> {
    order: Cell<Option<T>>,
    /// The client's node.
    pub(super) node: Cell<u16>,
    woken: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl<T> ClientSlot<T> {
    /// Creates a slot with an optional first order, for a client at `node`.
    pub(super) fn new(order: Option<T>, node: u16) -> Rc<Self> {
        let (woken, waker) = (Cell::new(false), Cell::new(None));
        Rc::new(Self { order: Cell::new(order), node: Cell::new(node), woken, waker })
    }

    /// Gives the client an order to run at `node`, in place of any order not yet taken, and wakes it.
    pub(super) fn hand(&self, order: T, node: u16) {
        self.order.set(Some(order));
        self.node.set(node);
        self.wake();
    }

    /// Takes the client's order; `None` if it has none.
    pub(super) fn take(&self) -> Option<T> {
        self.order.take()
    }

    /// Wakes the client, which then checks for an order and for the end of the stream.
    pub(super) fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Waits for the next wake-up; returns at once if there was one since the last call.
    pub(super) async fn woken(&self) {
        poll_fn(|cx| {
            if self.woken.take() {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Idle clients of one worker's part of a stream, by node number; last in, first out.
pub(super) struct Idle<T>(RefCell<Vec<Vec<Rc<ClientSlot<T>>>>>);

impl<T> Default for Idle<T> {
    /// Creates a pool without idle clients.
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Idle<T> {
    /// Adds an idle client, at the node that it last used.
    pub(super) fn put(&self, client_slot: Rc<ClientSlot<T>>) {
        let (mut idle, node) = (self.0.borrow_mut(), usize::from(client_slot.node.get()));
        if node >= idle.len() {
            idle.resize_with(node + 1, Vec::new);
        }
        idle[node].push(client_slot);
    }

    /// Takes the client at `node` that became idle last; `None` if none there is idle.
    pub(super) fn take(&self, node: u16) -> Option<Rc<ClientSlot<T>>> {
        self.0.borrow_mut().get_mut(usize::from(node))?.pop()
    }

    /// Returns the number of idle clients.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().iter().map(|client_slots| client_slots.len() as u64).sum()
    }

    /// Takes an idle client at the node with the most idle clients; `None` if all clients are busy.
    pub(super) fn take_any(&self) -> Option<Rc<ClientSlot<T>>> {
        self.0.borrow_mut().iter_mut().max_by_key(|client_slots| client_slots.len())?.pop()
    }
}
