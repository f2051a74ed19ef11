//! A client's route to the target: its assignment to a node, and its connections to one or several nodes.

use loadframe_engine::recording::reconnects;

use super::assignment::Assignment;
use super::wire::Wire;

/// A route, used by one request at a time.
pub struct Route {
    /// The node that the client uses.
    pub assignment: Assignment,
    /// Connections, by number of the node.
    pub wires: Vec<Option<Wire>>,
}

impl Route {
    /// Creates a route without connections; it connects at its first use.
    pub fn new(assignment: Assignment) -> Self {
        Self { assignment, wires: Vec::new() }
    }
}

/// A type that may hold a connection.
pub trait Wired: Default {
    /// Returns the connection; `None` while there is none.
    fn wire(&mut self) -> &mut Option<Wire>;

    /// Returns whether a usable connection exists.
    fn is_open(&mut self) -> bool {
        self.wire().as_mut().is_some_and(Wire::is_idle)
    }
}

impl Wired for Option<Wire> {
    /// Returns itself.
    fn wire(&mut self) -> &mut Option<Wire> {
        self
    }
}

/// Selects the node for a request by its `turn`, or another one if that node is down; returns the connection to it,
/// which may be missing. `wires` are the connections by number of the node. Closes connections to nodes that left,
/// those that the client does not keep, and unusable ones.
pub fn turn<'a, W: Wired>(assignment: &mut Assignment, wires: &'a mut Vec<W>, turn: u64) -> &'a mut W {
    let before = usize::from(assignment.node().number);
    if assignment.look() {
        let gone = wires.iter_mut().enumerate().filter(|(number, _)| !assignment.has(*number));
        gone.for_each(|(_, wire)| *wire.wire() = None);
    }
    assignment.turn(turn);
    let mut number = usize::from(assignment.node().number);
    if !drop_unless_open(wires, number) {
        assignment.detour(turn);
        number = usize::from(assignment.node().number);
        drop_unless_open(wires, number);
    }
    if number != before
        && !assignment.keeps()
        && let Some(wire) = wires.get_mut(before)
    {
        *wire.wire() = None;
    }
    &mut wires[number]
}

/// Returns the element at `index`. Extends a shorter list with defaults.
pub fn element<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

/// Returns whether there is a usable connection to node `number`; drops an unusable one and counts the loss.
fn drop_unless_open<W: Wired>(wires: &mut Vec<W>, number: usize) -> bool {
    let connection = element(wires, number);
    let open = connection.is_open();
    if !open && connection.wire().take().is_some() {
        reconnects::lost();
    }
    open
}
