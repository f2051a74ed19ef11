//! Sends a request to the node that has its vbucket, and follows the vbucket when it moves.

use std::time::Duration;

use loadframe_engine::driver::Failure;

use super::answer::NOT_MINE;
use super::connection::NodeConnection;
use super::nodes::{Bucket, CouchbaseNodes, unserved};
use super::packet::Response;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;

/// The pause between two attempts while no node is known to have a vbucket.
const PAUSE: Duration = Duration::from_millis(10);

/// One client's connections, by the number of the bucket and of the node.
#[derive(Default)]
pub struct ConnectionSet {
    by_node: Vec<Vec<NodeConnection>>,
}

/// A request that was sent, or begun to be; its answer is in the node's line.
#[derive(Debug)]
pub struct SentRequest {
    /// From the first byte that was sent to the last that came, over all nodes that were asked.
    pub exchanged: Exchanged,
    /// The node that was asked last.
    pub node: u16,
    bucket: usize,
}

impl ConnectionSet {
    /// The answer to the request that was asked last, if it was answered.
    pub fn answer(&self, sent_request: &SentRequest) -> Option<Response<'_>> {
        let connection = self.by_node.get(sent_request.bucket)?.get(usize::from(sent_request.node))?;
        connection.answers().is_complete().then(|| connection.answers().read().next())?
    }

    /// The lines to all nodes of a bucket, by the nodes' numbers.
    pub fn by_node(&mut self, bucket: &Bucket) -> &mut Vec<NodeConnection> {
        if bucket.number >= self.by_node.len() {
            self.by_node.resize_with(bucket.number + 1, Vec::new);
        }
        &mut self.by_node[bucket.number]
    }

    /// Opens a line to a node.
    pub async fn open(
        &mut self,
        nodes: &CouchbaseNodes,
        bucket: &Bucket,
        node: u16,
        durable: bool,
        limit: Limit,
    ) -> Result<(), Failure> {
        let by_node = self.by_node(bucket);
        let at = usize::from(node);
        if at >= by_node.len() {
            by_node.resize_with(at + 1, NodeConnection::default);
        }
        let Some(host) = nodes.known.host(node) else {
            bucket.doubt();
            return Err(unserved());
        };
        let opened = by_node[at].open(&host, &nodes.connect_options, &bucket.name, limit).await;
        if opened.is_err() {
            bucket.doubt();
        }
        opened?;
        if durable { by_node[at].require_durable() } else { Ok(()) }
    }

    /// Asks one request that is about a vbucket.
    pub async fn ask(
        &mut self,
        nodes: &CouchbaseNodes,
        bucket: &Bucket,
        request: &[u8],
        vbucket: u16,
        durable: bool,
        limit: Limit,
    ) -> (SentRequest, Result<(), Failure>) {
        let mut sent_request = SentRequest { exchanged: Exchanged::never(), node: 0, bucket: bucket.number };
        let mut sent = false;
        loop {
            let Some(node) = bucket.vbuckets.node(vbucket) else { return (sent_request, Err(unserved())) };
            sent_request.node = node;
            if let Err(failure) = self.open(nodes, bucket, node, durable, limit).await {
                return (sent_request, Err(failure));
            }
            let connection = &mut self.by_node[bucket.number][usize::from(node)];
            let (exchanged, outcome) = connection.speak(request, 1, limit).await;
            sent_request.exchanged = if sent { sent_request.exchanged.then(&exchanged) } else { exchanged };
            sent = true;
            if let Err(trouble) = outcome {
                bucket.doubt();
                return (sent_request, Err(trouble.into()));
            }
            let Some(answer) = connection.answers().read().next() else { return (sent_request, Ok(())) };
            if answer.status != NOT_MINE || limit.has_passed() {
                return (sent_request, Ok(()));
            }
            // A node that has given it away says in its answer to whom, or leaves it to be asked for.
            let learned = match nodes.known.host(node) {
                Some(host) => nodes.learn(bucket, answer.value, &host).await,
                None => false,
            };
            if !learned && let Err(error) = nodes.discover(bucket, limit).await {
                return (sent_request, Err(error.into()));
            }
            if bucket.vbuckets.node(vbucket) == Some(node) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
