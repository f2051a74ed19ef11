//! Bulk requests: one command per document, all pipelined. Each node gets the documents of its slots.
//!
//! If a slot has moved, its documents are resent one by one to the node that the answer names.

use loadframe_engine::driver::{Failure, Reply};
use loadframe_engine::util::draw::Draw;

use super::collection::Collection;
use super::error::{client, refusal};
use super::execute::ConnectionSet;
use super::nodes::{Mode, RedisNodes, unserved};
use super::operation::Buffers;
use super::resp::Item;
use super::script::{is_unknown, spelled_out};
use crate::crud::{Action, Bulk, Scalar, fields};
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::pipeline;
use crate::pipeline::{Document, fail, first_node, group_by_node, open_each, send_each};

/// Number of rounds: a node that lacks the script gets the documents again, with the script.
const ROUNDS: usize = 2;

/// Sends the documents of a request, or those at the positions `only`, to the nodes of their slots.
/// Without a cluster, sends them to one node. Returns the reply of [`pipeline::reply`]: the number of written
/// documents, and the positions of failed ones. A broken connection or a timeout fails its documents. Resends documents
/// to a node that lacks the script or the slot.
pub async fn ask(
    connections: &mut ConnectionSet,
    nodes: &RedisNodes,
    (bulk, only): (&Bulk, Option<&[u32]>),
    collection: &Collection,
    buffers: &mut Buffers,
    draw: &Draw,
    limit: Limit,
) -> Reply {
    let mut documents = commands((bulk, only), collection, buffers, draw.k);
    let asked;
    let mut groups = if nodes.mode() == Mode::Cluster {
        let node = |slot| {
            nodes.slots.get(usize::from(slot)).ok_or_else(|| {
                nodes.doubt();
                unserved(usize::from(slot))
            })
        };
        let groups = group_by_node(&mut documents, node);
        asked = groups.first().map(|(node, _)| *node);
        open_each(&mut documents, groups, async |node| connections.open(nodes, node, limit).await).await
    } else {
        let (node, opened) = connections.turn(nodes, draw.turn, limit).await;
        asked = Some(node);
        group_by_node(&mut documents, |_| opened.clone().map(|()| node))
    };
    let mut whole: Option<Exchanged> = None;
    let node = first_node(&groups, asked);
    for _ in 0..ROUNDS {
        let sent = send_each(connections.by_node(), &documents, &groups, limit).await;
        let mut again = Vec::new();
        for (group, (exchanged, outcome)) in sent {
            whole = Some(exchanged.beside(whole));
            let (node, numbers) = &groups[group];
            if let Err(trouble) = outcome {
                fail(&mut documents, numbers, &trouble.into());
                nodes.doubt();
                continue;
            }
            let mut answers = connections.by_node()[usize::from(*node)].answers();
            let mut unread = Vec::new();
            for at in numbers {
                let answer = answers.next();
                if is_unknown(answer) {
                    unread.push(*at);
                }
                documents[*at].outcome = judge(answer, bulk.action);
            }
            if let Some(first) = unread.first() {
                // The node executes commands in order: the first one carries the script, and the others use it.
                if let Some(text) = spelled_out(&documents[*first].request) {
                    documents[*first].request = text;
                }
                again.push((*node, unread));
            }
        }
        groups = again;
        if groups.is_empty() {
            break;
        }
    }
    for document in documents.iter_mut().filter(|document| document.outcome.is_none()) {
        let (sent_request, outcome) =
            connections.ask(nodes, &document.request, Some(usize::from(document.shard)), draw.turn, limit).await;
        whole = Some(sent_request.exchanged.after(whole));
        document.outcome = Some(match outcome {
            Ok(()) => match connections.answer(&sent_request).next() {
                Some(Item::Error(words)) => Err(refusal(words)),
                item => judge(item, bulk.action).unwrap_or(Ok(())),
            },
            Err(failure) => Err(failure),
        });
    }
    pipeline::reply(documents, whole, node)
}

/// Builds the command of each document of request number `k`, or of those at the positions `only`. Without an id field,
/// the document's line number in the corpus, from 0, is its id.
fn commands(
    (bulk, only): (&Bulk, Option<&[u32]>),
    collection: &Collection,
    buffers: &mut Buffers,
    k: u64,
) -> Vec<Document> {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let first = k % bulk.requests().max(1) * bulk.size;
    Bulk::chosen(&lines, only).map(|(n, line)| command(bulk, collection, buffers, line, first + n)).collect()
}

/// Builds the command of the document `line`, a JSON object. `number` is its id if `bulk.id` is `None`. A document that
/// is not an object, or whose id is missing or neither text nor a whole number, is marked as failed.
fn command(bulk: &Bulk, collection: &Collection, buffers: &mut Buffers, line: &[u8], number: u64) -> Document {
    let mut id = bulk.id.is_none().then(|| number.to_string());
    let mut count = 0;
    let read = fields(line, |name, value| {
        count += 1;
        if bulk.id.as_deref().is_some_and(|field| field.as_bytes() == name) {
            id = match value {
                Scalar::Text(text) => Some(text.into_owned()),
                Scalar::Int(whole) => Some(whole.to_string()),
                _ => None,
            };
        }
        Ok(())
    });
    let wrong = |message: &str| Document::failed(client(message));
    let (Ok(()), Some(id)) = (read, id) else {
        return wrong("a document of the corpus is not a JSON object, or has no id");
    };
    buffers.request.clear();
    let slot = buffers.named(&collection.name, id.as_bytes());
    if bulk.action == Action::Delete {
        buffers.begin(bulk.action, collection, 0);
    } else {
        buffers.begin(bulk.action, collection, count);
        let written = fields(line, |name, value| {
            buffers.field(name, &value);
            Ok(())
        });
        if written.is_err() {
            return wrong("a document of the corpus is not a JSON object");
        }
    }
    Document::new(slot as u16, buffers.request.clone())
}

/// Judges the answer for one document; `None` if the document must be resent, to another node or with its script. A
/// missing answer is a failure.
fn judge(item: Option<Item<'_>>, action: Action) -> Option<Result<(), Failure>> {
    Some(match item {
        Some(Item::Error(words)) if words.starts_with(b"MOVED ") || words.starts_with(b"ASK ") => return None,
        item if is_unknown(item) => return None,
        Some(Item::Error(words)) => Err(refusal(words)),
        Some(Item::Int(0)) if action == Action::Create => Err(client("already there")),
        Some(Item::Int(0)) if matches!(action, Action::Update | Action::Delete) => Err(client("not found")),
        Some(_) => Ok(()),
        None => Err(client("no answer")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_and_missing_documents_fail_the_actions_that_forbid_them() {
        let judged = |item, action| judge(Some(item), action).map(|outcome| outcome.is_ok());
        assert_eq!(judged(Item::Int(0), Action::Create), Some(false));
        assert_eq!(judged(Item::Int(0), Action::Delete), Some(false));
        assert_eq!(judged(Item::Int(0), Action::Upsert), Some(true), "no field of it was new");
        assert_eq!(judged(Item::Error(b"MOVED 1 a:1"), Action::Upsert), None);
        assert_eq!(judged(Item::Error(b"OOM no"), Action::Upsert), Some(false));
    }
}
