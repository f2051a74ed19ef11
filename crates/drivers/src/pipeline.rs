//! Bulk requests of protocols with one request per document: all documents at once, each to the node that owns it.

use futures_util::future::join_all;
use loadframe_engine::driver::{Failure, NO_NODE, Reply};

use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::trouble::Trouble;
use crate::tally::Tally;

/// One document's request and its outcome.
pub struct Document {
    /// Number of the slot or vbucket.
    pub shard: u16,
    /// The request.
    pub request: Vec<u8>,
    /// `None` until the document has an outcome.
    pub outcome: Option<Result<(), Failure>>,
}

/// The documents of one node, by their indices.
pub type Group = (u16, Vec<usize>);

/// A connection that sends several requests at once.
pub trait Pipelined {
    /// Sends `requests`, which are `count` requests, and waits for all their answers. Fails unless all answers arrive
    /// within `limit`. Returns times and bytes, also after a failure.
    fn send(
        &mut self,
        requests: &[u8],
        count: usize,
        limit: Limit,
    ) -> impl Future<Output = (Exchanged, Result<(), Trouble>)>;
}

impl Document {
    /// Creates a document to send.
    pub fn new(shard: u16, request: Vec<u8>) -> Self {
        Self { shard, request, outcome: None }
    }

    /// Creates a document that failed before sending.
    pub fn failed(failure: Failure) -> Self {
        Self { shard: 0, request: Vec::new(), outcome: Some(Err(failure)) }
    }
}

/// Groups the documents without an outcome by node, in the order of the nodes' first documents.
/// `node` returns the node of a shard; its error becomes the outcome of the shard's documents.
pub fn group_by_node(documents: &mut [Document], mut node: impl FnMut(u16) -> Result<u16, Failure>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, document) in documents.iter_mut().enumerate().filter(|(_, document)| document.outcome.is_none()) {
        match node(document.shard) {
            Err(failure) => document.outcome = Some(Err(failure)),
            Ok(node) => match groups.iter_mut().find(|(of, _)| *of == node) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((node, vec![number])),
            },
        }
    }
    groups
}

/// Gives the documents with the indices `numbers` this failure as their outcome.
pub fn fail(documents: &mut [Document], numbers: &[usize], failure: &Failure) {
    numbers.iter().for_each(|at| documents[*at].outcome = Some(Err(failure.clone())));
}

/// Connects to the node of each group with `open`. Returns the groups of reachable nodes; the documents of others fail.
pub async fn open_each(
    documents: &mut [Document],
    mut groups: Vec<Group>,
    mut open: impl AsyncFnMut(u16) -> Result<(), Failure>,
) -> Vec<Group> {
    let mut opened = Vec::with_capacity(groups.len());
    for (node, numbers) in groups.drain(..) {
        match open(node).await {
            Ok(()) => opened.push((node, numbers)),
            Err(failure) => fail(documents, &numbers, &failure),
        }
    }
    opened
}

/// Returns the node for which a request counts: the node of the first group in `opened`, the groups with a reachable
/// node; without any, `asked`, the node of the first group tried; otherwise [`NO_NODE`].
pub fn first_node(opened: &[Group], asked: Option<u16>) -> u16 {
    opened.first().map(|(node, _)| *node).or(asked).unwrap_or(NO_NODE)
}

/// Sends each group on the connection of its node, all at once, and waits for the answers.
/// Each result has the index of its group; results are in the order of `by_node`. `by_node` must have a connection for
/// each node of a group. An outcome is a failure unless all answers of the group arrived.
pub async fn send_each<C: Pipelined>(
    by_node: &mut [C],
    documents: &[Document],
    groups: &[Group],
    limit: Limit,
) -> Vec<(usize, (Exchanged, Result<(), Trouble>))> {
    let request = |numbers: &[usize]| numbers.iter().flat_map(|at| documents[*at].request.iter().copied()).collect();
    let requests: Vec<Vec<u8>> = groups.iter().map(|(_, numbers)| request(numbers)).collect();
    let mut exchanges = Vec::with_capacity(groups.len());
    for (node, connection) in by_node.iter_mut().enumerate() {
        if let Some(group) = groups.iter().position(|(of, _)| usize::from(*of) == node) {
            let (request, count) = (&requests[group], groups[group].1.len());
            exchanges.push(async move { (group, connection.send(request, count, limit).await) });
        }
    }
    join_all(exchanges).await
}

/// Returns the reply of a request with these documents; see [`Tally::reply`]. A document without an outcome counts as a
/// success.
pub fn reply(documents: Vec<Document>, whole: Option<Exchanged>, node: u16) -> Reply {
    let mut tally = Tally::default();
    for (place, document) in documents.into_iter().enumerate() {
        tally.count(place, document.outcome.unwrap_or(Ok(())));
    }
    tally.reply(whole, node)
}

#[cfg(test)]
mod tests {
    use loadframe_engine::driver::ErrorClass;

    use super::*;

    #[tokio::test]
    async fn documents_are_grouped_by_node_and_failures_stay_with_their_documents() {
        let refuse = |why: &str| Failure::new(ErrorClass::Client, why);
        let mut documents: Vec<Document> = [1, 2, 9, 1].map(|shard| Document::new(shard, Vec::new())).into();
        documents.push(Document::failed(refuse("no id")));
        let node = |shard| if shard == 9 { Err(refuse("no node")) } else { Ok(10 * shard) };
        let groups = group_by_node(&mut documents, node);
        assert_eq!(groups, [(10, vec![0, 3]), (20, vec![1])]);
        let open = async |node| if node == 20 { Err(refuse("closed")) } else { Ok(()) };
        assert_eq!(open_each(&mut documents, groups, open).await, [(10, vec![0, 3])]);
        let words = |document: &Document| Some(document.outcome.as_ref()?.as_ref().unwrap_err().message.clone());
        let known: Vec<_> = documents.iter().map(words).collect();
        assert_eq!(known, [None, Some("closed".into()), Some("no node".into()), None, Some("no id".into())]);
        let reply = reply(documents, None, 10);
        assert_eq!((reply.documents, reply.node, reply.refused), (2, 10, vec![1, 2, 4]));
    }

    #[test]
    fn a_request_that_reached_no_node_counts_for_the_one_that_it_asked_first() {
        assert_eq!(first_node(&[(4, vec![1]), (2, vec![0])], Some(3)), 4);
        assert_eq!(first_node(&[], Some(3)), 3);
        assert_eq!(first_node(&[], None), NO_NODE);
    }
}
