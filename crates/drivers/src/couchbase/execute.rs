//! Sends a request to the node that owns its vbucket, and follows the vbucket when it moves.

use std::time::Duration;

use loadframe_engine::driver::{Failure, NO_NODE};

use super::answer::NOT_MINE;
use super::connection::NodeConnection;
use super::nodes::{Bucket, CouchbaseNodes, unserved};
use super::packet::Response;
use crate::net::deadline::{Limit, sleep};
use crate::net::exchange::Exchanged;
use crate::net::route::{Wired, element};

/// Pause between two attempts while the owner of a vbucket is unknown.
const PAUSE: Duration = Duration::from_millis(10);

/// One client's connections, by bucket number and node number.
#[derive(Default)]
pub struct ConnectionSet {
    by_node: Vec<Vec<NodeConnection>>,
}

/// A request that was sent, fully or in part. Its answer is in the node's connection.
#[derive(Debug)]
pub struct SentRequest {
    /// Times and bytes from the first byte sent to the last byte received, over all nodes tried.
    pub exchanged: Exchanged,
    /// The last node tried, or [`NO_NODE`].
    pub node: u16,
    bucket: usize,
}

impl ConnectionSet {
    /// Returns the first answer to a request, or `None` if answers are missing.
    /// The request must be the last one on its connection.
    pub fn answer(&self, sent_request: &SentRequest) -> Option<Response<'_>> {
        let connection = self.by_node.get(sent_request.bucket)?.get(usize::from(sent_request.node))?;
        connection.answers().is_complete().then(|| connection.answers().read().next())?
    }

    /// Returns the connections to all nodes of a bucket, by node number.
    pub fn by_node(&mut self, bucket: &Bucket) -> &mut Vec<NodeConnection> {
        element(&mut self.by_node, bucket.number)
    }

    /// Opens a connection to a node for a bucket, unless it is open. A failure marks the bucket's configuration as
    /// possibly outdated. With `durable`, fails if the node does not support durable writes.
    pub async fn open(
        &mut self,
        nodes: &CouchbaseNodes,
        bucket: &Bucket,
        node: u16,
        durable: bool,
        limit: Limit,
    ) -> Result<(), Failure> {
        let connection = element(self.by_node(bucket), usize::from(node));
        if !connection.is_open() {
            let Some(host) = nodes.known.host(node) else {
                bucket.doubt();
                return Err(unserved());
            };
            let opened = connection.open(&host, &nodes.connect_options, &bucket.name, limit).await;
            if opened.is_err() {
                bucket.doubt();
            }
            opened?;
        }
        if durable { connection.require_durable() } else { Ok(()) }
    }

    /// Sends one request to the node that owns a vbucket. If the node has lost it, refreshes the configuration and
    /// resends the request to the new owner, until `limit`. The status of the answer is not checked. `durable`: fails
    /// unless the node supports durable writes.
    pub async fn ask(
        &mut self,
        nodes: &CouchbaseNodes,
        bucket: &Bucket,
        request: &[u8],
        vbucket: u16,
        durable: bool,
        limit: Limit,
    ) -> (SentRequest, Result<(), Failure>) {
        let sent_request = |exchanged, node| SentRequest { exchanged, node, bucket: bucket.number };
        let (mut before, mut last) = (None, NO_NODE);
        loop {
            let node = match bucket.owner(vbucket) {
                Ok(node) => node,
                Err(failure) => return (sent_request(Exchanged::given_up(before), last), Err(failure)),
            };
            last = node;
            if let Err(failure) = self.open(nodes, bucket, node, durable, limit).await {
                return (sent_request(Exchanged::given_up(before), node), Err(failure));
            }
            let connection = &mut self.by_node[bucket.number][usize::from(node)];
            let (exchanged, outcome) = connection.speak(request, 1, limit).await;
            let whole = exchanged.after(before);
            before = Some(whole);
            if let Err(trouble) = outcome {
                bucket.doubt();
                return (sent_request(whole, node), Err(trouble.into()));
            }
            let Some(answer) = connection.answers().read().next() else { return (sent_request(whole, node), Ok(())) };
            if answer.status != NOT_MINE || limit.has_passed() {
                return (sent_request(whole, node), Ok(()));
            }
            // A node that lost the vbucket may send the new configuration in its answer. Otherwise fetch it.
            let learned = match nodes.known.host(node) {
                Some(host) => limit.within(nodes.learn(bucket, answer.value, &host)).await.unwrap_or(false),
                None => false,
            };
            if !learned && let Err(error) = nodes.discover(bucket, limit).await {
                return (sent_request(Exchanged::given_up(before), node), Err(error.into()));
            }
            if bucket.vbuckets.node(vbucket) == Some(node) {
                sleep(PAUSE).await;
            }
        }
    }
}
