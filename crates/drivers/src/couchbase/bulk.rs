//! Bulk requests: one request per document, all sent at once, each to the node of its vbucket.
//!
//! If a document's vbucket has moved, the driver resends its request alone, to the new node.

use loadframe_engine::driver::{Failure, Reply};

use super::answer::{NOT_MINE, client, refusal};
use super::execute::ConnectionSet;
use super::nodes::{Bucket, CouchbaseNodes};
use super::operation::{changed, misnamed, stored};
use super::packet::{Opcode, Packet, Response};
use super::subdoc;
use super::subdoc::FIELDS;
use crate::crud::{Action, Bulk, Scalar};
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::pipeline;
use crate::pipeline::{Document, fail, first_node, group_by_node, open_each, send_each};
use loadframe_engine::util::json::Cursor;

/// Sends the documents of request number `k`, or those at the indices `only`, all at once. Resends documents after
/// their vbucket has moved. Returns the reply of [`pipeline::reply`]: the number of written documents, and the
/// positions of failed ones. A broken connection or a timeout fails its documents. `durability` is the level's protocol
/// number.
pub async fn ask(
    connections: &mut ConnectionSet,
    nodes: &CouchbaseNodes,
    (bulk, only): (&Bulk, Option<&[u32]>),
    bucket: &Bucket,
    durability: Option<u8>,
    k: u64,
    limit: Limit,
) -> Reply {
    let mut documents = requests((bulk, only), bucket, durability, k);
    let groups = group_by_node(&mut documents, |vbucket| bucket.owner(vbucket));
    let asked = groups.first().map(|(node, _)| *node);
    let open = async |node| connections.open(nodes, bucket, node, durability.is_some(), limit).await;
    let groups = open_each(&mut documents, groups, open).await;
    let mut whole: Option<Exchanged> = None;
    for (group, (exchanged, outcome)) in send_each(connections.by_node(bucket), &documents, &groups, limit).await {
        whole = Some(exchanged.beside(whole));
        let (node, numbers) = &groups[group];
        if let Err(trouble) = outcome {
            fail(&mut documents, numbers, &trouble.into());
            bucket.doubt();
            continue;
        }
        let connection = &connections.by_node(bucket)[usize::from(*node)];
        for (at, answer) in numbers.iter().zip(connection.answers().read()) {
            documents[*at].outcome = (answer.status != NOT_MINE).then(|| judge(&answer));
        }
    }
    for document in documents.iter_mut().filter(|document| document.outcome.is_none()) {
        let durable = durability.is_some();
        let (sent_request, outcome) =
            connections.ask(nodes, bucket, &document.request, document.shard, durable, limit).await;
        whole = Some(sent_request.exchanged.after(whole));
        document.outcome = Some(outcome.and_then(|()| match connections.answer(&sent_request) {
            Some(answer) => judge(&answer),
            None => Err(client("no answer")),
        }));
    }
    pipeline::reply(documents, whole, first_node(&groups, asked))
}

/// Refuses an answer with a status other than 0, with its failure.
fn judge(answer: &Response<'_>) -> Result<(), Failure> {
    if answer.status == 0 { Ok(()) } else { Err(refusal(answer)) }
}

/// Builds the request of each document of request number `k`, or of those at the indices `only`.
/// Marks unsendable documents as failed. Without `bulk.id`, ids are line numbers in the corpus, from 0.
fn requests((bulk, only): (&Bulk, Option<&[u32]>), bucket: &Bucket, durability: Option<u8>, k: u64) -> Vec<Document> {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let first = k % bulk.requests().max(1) * bulk.size;
    let made = Bulk::chosen(&lines, only).map(|(n, line)| {
        request(bulk, bucket, durability, line, first + n).unwrap_or_else(|why| Document::failed(client(why)))
    });
    made.collect()
}

/// Builds the request of the document `line`. `number` is its id if `bulk.id` is `None`. The error says why it cannot
/// be sent: it is not a JSON object, lacks a valid id, or has too many fields.
fn request(
    bulk: &Bulk,
    bucket: &Bucket,
    durability: Option<u8>,
    line: &[u8],
    number: u64,
) -> Result<Document, &'static str> {
    let mut fields: Vec<(Vec<u8>, &[u8])> = Vec::new();
    let read = Cursor::new(line).object(|name, cursor| {
        fields.push((name.to_vec(), cursor.value()?));
        Ok(true)
    });
    read.map_err(|_| "a document of the corpus is not a JSON object")?;
    let id = match &bulk.id {
        None => number.to_string(),
        Some(name) => {
            let field = fields.iter().find(|(known, _)| known == name.as_bytes());
            match field.and_then(|(_, json)| Scalar::parse(json)) {
                Some(Scalar::Text(text)) => text.into_owned(),
                Some(Scalar::Int(whole)) => whole.to_string(),
                _ => return Err("a document of the corpus has no id"),
            }
        }
    };
    if let Some(wrong) = misnamed(id.as_bytes()) {
        return Err(wrong);
    }
    let (key, vbucket) = (id.as_bytes(), bucket.vbuckets.of(id.as_bytes()));
    let mut request = Vec::new();
    let stored = stored();
    let (opcode, extras): (_, &[u8]) = match bulk.action {
        Action::Index => (Opcode::Set, &stored),
        Action::Create => (Opcode::Add, &stored),
        Action::Update | Action::Upsert => (Opcode::Mutate, changed(bulk.action)),
        Action::Delete => (Opcode::Delete, &[]),
    };
    let packet = Packet::begin(&mut request, opcode, vbucket, durability, extras, key);
    match bulk.action {
        Action::Index | Action::Create => request.extend_from_slice(line),
        Action::Delete => {}
        Action::Update | Action::Upsert if fields.len() > FIELDS => {
            return Err("a document has more fields than one request can change, which are 16");
        }
        Action::Update | Action::Upsert => fields.iter().for_each(|(name, json)| subdoc::put(&mut request, name, json)),
    }
    packet.end(&mut request);
    Ok(Document::new(vbucket, request))
}
