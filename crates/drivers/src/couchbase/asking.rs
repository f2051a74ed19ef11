//! Sends a request to the node that has its vbucket, and follows the vbucket when it moves.

use std::time::Duration;

use loadframe_engine::driver::Failure;

use super::judge::NOT_MINE;
use super::line::Line;
use super::nodes::{Bucket, CouchbaseNodes, unserved};
use super::packet::Response;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;

/// The pause between two attempts while no node is known to have a vbucket.
const PAUSE: Duration = Duration::from_millis(10);

/// One client's connections, by the number of the bucket and of the node.
#[derive(Default)]
pub struct Means {
    lines: Vec<Vec<Line>>,
}

/// A request that was sent, or begun to be; its answer is in the node's line.
#[derive(Debug)]
pub struct Asked {
    /// From the first byte that was sent to the last that came, over all nodes that were asked.
    pub exchanged: Exchanged,
    /// The node that was asked last.
    pub node: u16,
    bucket: usize,
}

impl Means {
    /// The answer to the request that was asked last, if it was answered.
    pub fn answer(&self, asked: &Asked) -> Option<Response<'_>> {
        let line = self.lines.get(asked.bucket)?.get(usize::from(asked.node))?;
        line.answers().is_complete().then(|| line.answers().read().next())?
    }

    /// The lines to all nodes of a bucket, by the nodes' numbers.
    pub fn lines(&mut self, bucket: &Bucket) -> &mut Vec<Line> {
        if bucket.number >= self.lines.len() {
            self.lines.resize_with(bucket.number + 1, Vec::new);
        }
        &mut self.lines[bucket.number]
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
        let lines = self.lines(bucket);
        let at = usize::from(node);
        if at >= lines.len() {
            lines.resize_with(at + 1, Line::default);
        }
        let Some(host) = nodes.known.host(node) else {
            bucket.doubt();
            return Err(unserved());
        };
        let opened = lines[at].open(&host, &nodes.terms, &bucket.name, limit).await;
        if opened.is_err() {
            bucket.doubt();
        }
        opened?;
        if durable { lines[at].require_durable() } else { Ok(()) }
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
    ) -> (Asked, Result<(), Failure>) {
        let mut asked = Asked { exchanged: Exchanged::never(), node: 0, bucket: bucket.number };
        let mut sent = false;
        loop {
            let Some(node) = bucket.vbuckets.node(vbucket) else { return (asked, Err(unserved())) };
            asked.node = node;
            if let Err(failure) = self.open(nodes, bucket, node, durable, limit).await {
                return (asked, Err(failure));
            }
            let line = &mut self.lines[bucket.number][usize::from(node)];
            let (exchanged, outcome) = line.speak(request, 1, limit).await;
            asked.exchanged = if sent { asked.exchanged.then(&exchanged) } else { exchanged };
            sent = true;
            if let Err(trouble) = outcome {
                bucket.doubt();
                return (asked, Err(trouble.into()));
            }
            let Some(answer) = line.answers().read().next() else { return (asked, Ok(())) };
            if answer.status != NOT_MINE || limit.has_passed() {
                return (asked, Ok(()));
            }
            // A node that has given it away says in its answer to whom, or leaves it to be asked for.
            let learned = match nodes.known.host(node) {
                Some(host) => nodes.learn(bucket, answer.value, &host).await,
                None => false,
            };
            if !learned && let Err(error) = nodes.discover(bucket, limit).await {
                return (asked, Err(error.into()));
            }
            if bucket.vbuckets.node(vbucket) == Some(node) {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
