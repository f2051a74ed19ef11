//! Bulk requests: one request per document, all sent at once, each to the node of its vbucket.
//!
//! If a document's vbucket has moved, the driver resends its request alone, to the new node.

use futures_util::future::join_all;
use loadframe_engine::driver::{Failure, Reply};

use super::answer::{NOT_MINE, client, refusal};
use super::execute::ConnectionSet;
use super::nodes::{Bucket, CouchbaseNodes, unserved};
use super::operation::{changed, misnamed, stored};
use super::packet::{Opcode, Packet, Response};
use super::subdoc;
use super::subdoc::FIELDS;
use crate::crud::{Action, Bulk, Scalar};
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::tally::Tally;
use loadframe_engine::util::json::Cursor;

/// One document's request and its outcome.
struct Document {
    vbucket: u16,
    request: Vec<u8>,
    outcome: Option<Result<(), Failure>>,
}

/// Sends the documents of request `k`, or those at the indices `only`.
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
    let mut groups: Vec<(u16, Vec<usize>)> = Vec::new();
    for (number, document) in documents.iter_mut().enumerate().filter(|(_, document)| document.outcome.is_none()) {
        match bucket.vbuckets.node(document.vbucket) {
            None => document.outcome = Some(Err(unserved())),
            Some(node) => match groups.iter_mut().find(|(of, _)| *of == node) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((node, vec![number])),
            },
        }
    }
    let mut open = Vec::new();
    for (node, numbers) in groups {
        match connections.open(nodes, bucket, node, durability.is_some(), limit).await {
            Ok(()) => open.push((node, numbers)),
            Err(failure) => numbers.iter().for_each(|at| documents[*at].outcome = Some(Err(failure.clone()))),
        }
    }
    let packed: Vec<Vec<u8>> = open
        .iter()
        .map(|(_, numbers)| numbers.iter().flat_map(|at| documents[*at].request.iter().copied()).collect())
        .collect();
    let mut whole: Option<Exchanged> = None;
    let mut exchanges = Vec::new();
    for (node, line) in connections.by_node(bucket).iter_mut().enumerate() {
        if let Some(group) = open.iter().position(|(of, _)| usize::from(*of) == node) {
            let (request, count) = (&packed[group], open[group].1.len());
            exchanges.push(async move { (group, line.speak(request, count, limit).await) });
        }
    }
    for (group, (exchanged, outcome)) in join_all(exchanges).await {
        whole = Some(exchanged.beside(whole));
        let (node, numbers) = &open[group];
        if let Err(trouble) = outcome {
            let failure = Failure::from(trouble);
            numbers.iter().for_each(|at| documents[*at].outcome = Some(Err(failure.clone())));
            bucket.doubt();
            continue;
        }
        let line = &connections.by_node(bucket)[usize::from(*node)];
        for (at, answer) in numbers.iter().zip(line.answers().read()) {
            documents[*at].outcome = (answer.status != NOT_MINE).then(|| judge(&answer));
        }
    }
    for document in documents.iter_mut().filter(|document| document.outcome.is_none()) {
        let durable = durability.is_some();
        let (sent_request, outcome) =
            connections.ask(nodes, bucket, &document.request, document.vbucket, durable, limit).await;
        whole = Some(sent_request.exchanged.beside(whole));
        document.outcome = Some(outcome.and_then(|()| match connections.answer(&sent_request) {
            Some(answer) => judge(&answer),
            None => Err(client("no answer")),
        }));
    }
    let node = open.first().map_or(0, |(node, _)| *node);
    let mut tally = Tally::default();
    for (place, document) in documents.into_iter().enumerate() {
        tally.count(place, document.outcome.unwrap_or(Ok(())));
    }
    let Exchanged { sent, done, bytes_sent, bytes_received } = whole.unwrap_or_else(Exchanged::never);
    Reply { bytes_sent, bytes_received, node, ..tally.settle(sent, done) }
}

fn judge(answer: &Response<'_>) -> Result<(), Failure> {
    if answer.status == 0 { Ok(()) } else { Err(refusal(answer)) }
}

/// Builds the request of each document. If `bulk.id` is `None`, an id is the line number in the corpus.
fn requests((bulk, only): (&Bulk, Option<&[u32]>), bucket: &Bucket, durability: Option<u8>, k: u64) -> Vec<Document> {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let first = k % bulk.requests().max(1) * bulk.size;
    let made = Bulk::chosen(&lines, only).map(|(n, line)| {
        request(bulk, bucket, durability, line, first + n).unwrap_or_else(|why| Document {
            vbucket: 0,
            request: Vec::new(),
            outcome: Some(Err(client(why))),
        })
    });
    made.collect()
}

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
    Ok(Document { vbucket, request, outcome: None })
}
