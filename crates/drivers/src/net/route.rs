//! One way to the target: an assignment to one of its nodes, and a connection to the node that is asked, or to each.

use loadframe_engine::recording::reconnects;

use super::topology::Assignment;
use super::wire::Wire;

/// See the module. It serves one request at a time.
pub struct Route {
    /// Which node is asked.
    pub assignment: Assignment,
    /// Connections, by the number of the node.
    pub wires: Vec<Option<Wire>>,
}

impl Route {
    /// A route without a connection yet; it connects at its first use.
    pub fn new(assignment: Assignment) -> Self {
        Self { assignment, wires: Vec::new() }
    }
}

/// Anything that may have a connection.
pub trait Wired: Default {
    /// The connection, or the place for one.
    fn wire(&mut self) -> &mut Option<Wire>;
}

impl Wired for Option<Wire> {
    fn wire(&mut self) -> &mut Option<Wire> {
        self
    }
}

/// Selects the node for a request by its turn; returns the connection to it, or the place for one.
pub fn turn<'a, W: Wired>(assignment: &mut Assignment, wires: &'a mut Vec<W>, turn: u64) -> &'a mut W {
    let before = usize::from(assignment.node().number);
    if assignment.look() {
        let gone = wires.iter_mut().enumerate().filter(|(number, _)| !assignment.has(*number));
        gone.for_each(|(_, wire)| *wire.wire() = None);
    }
    assignment.turn(turn);
    let mut number = usize::from(assignment.node().number);
    if !is_open(wires, number) {
        assignment.detour(turn);
        number = usize::from(assignment.node().number);
        is_open(wires, number);
    }
    if number != before
        && !assignment.keeps()
        && let Some(wire) = wires.get_mut(before)
    {
        *wire.wire() = None;
    }
    &mut wires[number]
}

/// Whether there is a usable connection to a node; an unusable one is dropped.
fn is_open<W: Wired>(wires: &mut Vec<W>, number: usize) -> bool {
    if number >= wires.len() {
        wires.resize_with(number + 1, W::default);
    }
    let wire = wires[number].wire();
    let open = wire.as_mut().is_some_and(Wire::is_idle);
    if !open && wire.take().is_some() {
        reconnects::lost();
    }
    open
}
