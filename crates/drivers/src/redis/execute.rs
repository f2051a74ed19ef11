//! Sending requests: to the node that the client uses on single servers, or to the node of the key's slot in a cluster.
//! Follows redirections.

use std::borrow::Cow;

use loadframe_engine::driver::{ErrorClass, Failure, NO_NODE};

use super::connection::NodeConnection;
use super::nodes::{Mode, RedisNodes, redirection, unserved};
use super::resp::{Item, Reader};
use super::script::{is_unknown, spelled_out};
use super::slots::SLOTS;
use crate::net::assignment::Assignment;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route;
use crate::net::route::Wired;

/// Largest number of redirections: a longer chain means that nodes redirect to each other.
const REDIRECTIONS: usize = 8;

/// Prefix of a command for a node that is importing the slot.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// One client's connections.
pub struct ConnectionSet {
    assignment: Assignment,
    /// Connections, by number of the node.
    by_node: Vec<NodeConnection>,
}

/// A request that was sent, at least in part. Its answer is in the node's connection.
#[derive(Debug)]
pub struct SentRequest {
    /// From the first byte sent to the last received, over all nodes involved.
    pub exchanged: Exchanged,
    /// The last node that the request was sent to, or [`NO_NODE`].
    pub node: u16,
    /// Number of answers before the request's own.
    before: usize,
}

impl ConnectionSet {
    /// Creates it without connections.
    pub fn new(assignment: Assignment) -> Self {
        Self { assignment, by_node: Vec::new() }
    }

    /// Switches the client to node number `node` from its next request on, unless the target is a cluster. `keep`:
    /// connections to other nodes stay open.
    pub fn turn_to(&mut self, node: u16, keep: bool) {
        self.assignment.turn_to(node, keep);
    }

    /// Returns a reader of the answer to the last request, which must have one. Panics if the client has no state for
    /// its node.
    pub fn answer(&self, sent_request: &SentRequest) -> Reader<'_> {
        let mut answers = self.by_node[usize::from(sent_request.node)].answers();
        (0..sent_request.before).for_each(|_| answers.skip());
        answers
    }

    /// Returns whether the last request received its answer.
    pub fn is_answered(&self, sent_request: &SentRequest) -> bool {
        self.by_node.get(usize::from(sent_request.node)).is_some_and(NodeConnection::is_answered)
    }

    /// Returns the connections to all nodes, by their numbers.
    pub fn by_node(&mut self) -> &mut Vec<NodeConnection> {
        &mut self.by_node
    }

    /// Sends one command: in a cluster to the node of `slot` (`None`: of any slot), otherwise to the node chosen by
    /// `turn`. Follows redirections in a cluster. Resends the command with its script if the node lacks it. Error
    /// replies are not failures here.
    pub async fn ask(
        &mut self,
        nodes: &RedisNodes,
        request: &[u8],
        slot: Option<usize>,
        turn: u64,
        limit: Limit,
    ) -> (SentRequest, Result<(), Failure>) {
        match nodes.mode() {
            Mode::Cluster => self.follow(nodes, request, slot, turn, limit).await,
            Mode::Single | Mode::Unknown => {
                let (node, opened) = self.turn(nodes, turn, limit).await;
                if let Err(failure) = opened {
                    return (SentRequest { exchanged: Exchanged::never(), node, before: 0 }, Err(failure));
                }
                let connection = &mut self.by_node[usize::from(node)];
                let (mut exchanged, mut outcome) = connection.speak([request, b""], 1, limit).await;
                if outcome.is_ok()
                    && is_unknown(connection.answers().next())
                    && let Some(text) = spelled_out(request)
                {
                    let again;
                    (again, outcome) = connection.speak([&text, b""], 1, limit).await;
                    exchanged = exchanged.then(&again);
                }
                (SentRequest { exchanged, node, before: 0 }, outcome.map_err(Failure::from))
            }
        }
    }

    /// Selects the node by `turn` and connects to it, unless connected; records whether it is up. Returns its number.
    /// Fails if it is unreachable or refuses the credentials.
    pub async fn turn(&mut self, nodes: &RedisNodes, turn: u64, limit: Limit) -> (u16, Result<(), Failure>) {
        let connection = route::turn(&mut self.assignment, &mut self.by_node, turn);
        let node = self.assignment.node();
        let opened = connection.open(&node.host, &nodes.connect_options, limit).await;
        match &opened {
            Ok(()) => node.rise(),
            Err(failure) if failure.class == ErrorClass::Connect => self.assignment.refused(&failure.message),
            Err(_) => {}
        }
        (node.number, opened)
    }

    /// Connects to a node of a cluster, if necessary. A failure marks the slots as possibly out of date.
    pub async fn open(&mut self, nodes: &RedisNodes, node: u16, limit: Limit) -> Result<(), Failure> {
        let connection = route::element(&mut self.by_node, usize::from(node));
        if connection.is_open() {
            return Ok(());
        }
        let Some(host) = nodes.known.host(node) else {
            nodes.doubt();
            return Err(Failure::new(ErrorClass::Server, "the cluster names a node that it does not list"));
        };
        let opened = connection.open(&host, &nodes.connect_options, limit).await;
        if opened.is_err() {
            nodes.doubt();
        }
        opened
    }

    /// Sends a command to a cluster and follows redirections. After 8 redirections or resends, the last answer counts,
    /// also a redirection. Stores the new node of a slot that has moved; after a failure, marks the slots as out of
    /// date. `turn` selects the node of a command without a `slot`.
    async fn follow(
        &mut self,
        nodes: &RedisNodes,
        request: &[u8],
        slot: Option<usize>,
        turn: u64,
        limit: Limit,
    ) -> (SentRequest, Result<(), Failure>) {
        // Any node can execute a command without a key.
        let slot = slot.unwrap_or_else(|| any_slot(turn));
        let Some(mut node) = nodes.slots.get(slot) else {
            nodes.doubt();
            return (SentRequest { exchanged: Exchanged::never(), node: NO_NODE, before: 0 }, Err(unserved(slot)));
        };
        let mut asking = false;
        let mut request = Cow::Borrowed(request);
        let mut sent_request: Option<SentRequest> = None;
        for _ in 0..=REDIRECTIONS {
            if let Err(failure) = self.open(nodes, node, limit).await {
                let exchanged = Exchanged::given_up(sent_request.map(|sent| sent.exchanged));
                return (SentRequest { exchanged, node, before: 0 }, Err(failure));
            }
            let before = usize::from(asking);
            let parts = if asking { [ASKING, &*request] } else { [&*request, b""] };
            let connection = &mut self.by_node[usize::from(node)];
            let (exchanged, outcome) = connection.speak(parts, 1 + before, limit).await;
            let whole = exchanged.after(sent_request.map(|sent| sent.exchanged));
            sent_request = Some(SentRequest { exchanged: whole, node, before });
            if let Err(trouble) = outcome {
                nodes.doubt();
                return (sent_request.unwrap(), Err(trouble.into()));
            }
            let mut answers = connection.answers();
            (0..before).for_each(|_| answers.skip());
            let answer = answers.next();
            if is_unknown(answer)
                && let Some(text) = spelled_out(&request)
            {
                request = Cow::Owned(text);
                continue;
            }
            let Some(Item::Error(words)) = answer else { break };
            asking = words.starts_with(b"ASK ");
            if !asking && !words.starts_with(b"MOVED ") {
                break;
            }
            let Some(host) = nodes.known.host(node) else { break };
            let Some((slot, address)) = redirection(words, &host) else { break };
            let Some(Ok(next)) = limit.within(nodes.known.number(&address)).await else {
                // The look-up of its name takes long.
                sent_request.iter_mut().for_each(|sent| sent.exchanged = Exchanged::given_up(Some(sent.exchanged)));
                break;
            };
            if !asking {
                nodes.slots.set(slot, next);
            }
            node = next;
        }
        (sent_request.expect("the loop sends it at least once"), Ok(()))
    }
}

/// Returns a slot for a command without a key. Successive turns reach all nodes, in proportion to their slots.
fn any_slot(turn: u64) -> usize {
    // Near the golden section of the slots, so that any sequence of turns is spread evenly.
    /// Distance between the slots of successive turns.
    const STEP: u64 = 10_127;
    (turn.wrapping_mul(STEP) % SLOTS as u64) as usize
}
