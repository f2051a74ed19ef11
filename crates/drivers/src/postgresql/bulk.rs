//! A bulk request. Documents that are put there go as statements of many rows; documents that are changed or removed as
//! one transaction. Where a document is wrong all of them are sent again, each by itself, so that the others get
//! through.

use std::borrow::Cow;
use std::time::Instant;

use futures_util::future::join_all;
use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use tokio_postgres::{Client, Error, Statement};

use super::failure::{failure, is_of_data, request};
use super::line::Broken;
use super::statement::Param;
use super::table::Table;
use super::turn::{Turn, add, columns};
use crate::neutral::{Action, Bulk, Scalar, fields};
use crate::tally::Tally;

/// Values of one statement: the protocol counts them in 16 bits.
const VALUES: usize = 65_535;
/// What distinguishes the statements of one row from those of many, among an operation's.
const SINGLE: &[u8] = b"single\0";

/// One document: where it stands among those that are sent, its id, and its other values.
struct Document<'a> {
    place: u32,
    id: Param<'a>,
    values: Vec<Param<'a>>,
}

/// Documents with the same columns, whose names are in the key.
type Group<'a> = (Vec<u8>, Vec<Document<'a>>);

/// Sends request `k`, or those of its documents at the places `only`.
pub async fn ask(
    turn: &mut Turn<'_>,
    table: &Table,
    (bulk, only): (&Bulk, Option<&[u32]>),
    k: u64,
) -> Result<Reply, Failure> {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let first = k % bulk.requests().max(1) * bulk.size;
    let mut tally = Tally::default();
    let mut groups: Vec<Group> = Vec::new();
    for (place, (at, line)) in (0..).zip(Bulk::chosen(&lines, only)) {
        match read(bulk, table, line, first + at, place) {
            Ok((key, document)) => match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, documents)) => documents.push(document),
                None => groups.push((key, vec![document])),
            },
            Err(failure) => tally.fail(failure),
        }
    }
    let mut sent = None;
    let mut done = Instant::now();
    for (key, documents) in &groups {
        let columns = table.document.as_ref().map_or_else(|| columns(key), |document| Ok(vec![document.clone()]))?;
        let columns = if bulk.action == Action::Delete { Vec::new() } else { columns };
        let most = (VALUES / (columns.len() + 1)).max(1);
        for chunk in documents.chunks(most) {
            let single = turn.statement(&[SINGLE, key].concat(), || text(table, bulk.action, &columns, 1)).await?;
            let many = match bulk.action {
                Action::Index | Action::Create | Action::Upsert if chunk.len() > 1 => {
                    let key = [&chunk.len().to_ne_bytes(), key.as_slice()].concat();
                    Some(turn.statement(&key, || text(table, bulk.action, &columns, chunk.len())).await?)
                }
                _ => None,
            };
            sent.get_or_insert_with(Instant::now);
            send(turn, chunk, (&single, many.as_ref()), bulk.action, &mut tally).await;
            done = Instant::now();
        }
    }
    let reply = tally.settle(sent.unwrap_or(done), done);
    if let Some(shown) = turn.shown {
        if let Some((key, documents)) = groups.first() {
            let columns =
                table.document.as_ref().map_or_else(|| columns(key), |document| Ok(vec![document.clone()]))?;
            add(&mut shown.request, &text(table, bulk.action, &columns, documents.len().min(2)));
        }
        add(&mut shown.answer, &format!("{} documents", reply.documents));
    }
    Ok(reply)
}

/// Reads a document of the corpus: the names of its columns, and its values.
fn read<'a>(
    bulk: &Bulk,
    table: &Table,
    line: &'a [u8],
    number: u64,
    place: u32,
) -> Result<(Vec<u8>, Document<'a>), Failure> {
    let key = table.key.trim_matches('"');
    let field = bulk.id.as_deref().unwrap_or(key);
    let mut names = Vec::new();
    let mut id = None;
    let mut values = Vec::new();
    let read = fields(line, |name, value| {
        if name == field.as_bytes() {
            id = Some(match value {
                Scalar::Text(text) => Param::Text(Cow::Owned(text.into_owned().into_bytes())),
                value => Param::Scalar(value),
            });
        } else if table.document.is_none() && bulk.action != Action::Delete {
            names.extend_from_slice(name);
            names.push(0);
            values.push(Param::Scalar(value));
        }
        Ok(())
    });
    read.map_err(|_| failure(ErrorClass::Client, "a document of the corpus is not a JSON object"))?;
    if table.document.is_some() && bulk.action != Action::Delete {
        values.push(Param::Scalar(Scalar::Json(line)));
    }
    let id = match id {
        Some(id) => id,
        // Without a field that is named, a document's number in the corpus is its id.
        None if bulk.id.is_none() => Param::Scalar(Scalar::Int(number as i64)),
        None => {
            return Err(failure(ErrorClass::Client, format!("a document has no field \"{field}\" for its id")));
        }
    };
    Ok((names, Document { place, id, values }))
}

fn text(table: &Table, action: Action, columns: &[String], rows: usize) -> String {
    match action {
        Action::Index => table.replace(columns, rows),
        Action::Create => table.insert(columns, rows),
        Action::Upsert => table.upsert(columns, rows),
        Action::Update => table.update(columns),
        Action::Delete => table.delete(),
    }
}

/// Sends documents of the same columns, and counts their outcomes.
async fn send(
    turn: &mut Turn<'_>,
    documents: &[Document<'_>],
    (single, many): (&Statement, Option<&Statement>),
    action: Action,
    tally: &mut Tally,
) {
    let places: Vec<u32> = documents.iter().map(|document| document.place).collect();
    let id_last = action == Action::Update;
    if let Some(many) = many {
        let params: Vec<&Param> =
            documents.iter().flat_map(|document| std::iter::once(&document.id).chain(&document.values)).collect();
        let (line, deadline, limit) = turn.parts();
        let outcome = deadline.within(limit.due, line.run(|client| client.execute_raw(many, params))).await;
        match outcome {
            Some(Ok(_)) => return tally.succeed(documents.len() as u64),
            Some(Err(Broken::Error(error))) if is_of_data(&error) => {}
            Some(Err(broken)) => return tally.fail_at(&places, broken.failure()),
            None => return tally.fail_at(&places, limit.missed()),
        }
    } else if documents.len() > 1 {
        // All in one transaction, which one bad document breaks.
        match one_by_one(turn, documents, single, id_last, true).await {
            Ok(outcomes) if outcomes.iter().all(Result::is_ok) => return count(&places, outcomes, tally),
            Ok(outcomes) if !outcomes.iter().any(|outcome| outcome.as_ref().is_err_and(is_of_data)) => {
                return count(&places, outcomes, tally);
            }
            Ok(_) => {}
            Err(failure) => return tally.fail_at(&places, failure),
        }
    }
    match one_by_one(turn, documents, single, id_last, false).await {
        Ok(outcomes) => count(&places, outcomes, tally),
        Err(failure) => tally.fail_at(&places, failure),
    }
}

/// Sends a statement for each document, all at once; the outcome of each, unless the connection broke.
async fn one_by_one(
    turn: &mut Turn<'_>,
    documents: &[Document<'_>],
    single: &Statement,
    id_last: bool,
    together: bool,
) -> Result<Vec<Result<u64, Error>>, Failure> {
    let (line, deadline, limit) = turn.parts();
    let request = line.run(async |client: &Client| {
        let begin = async { if together { client.batch_execute("BEGIN").await } else { Ok(()) } };
        let written = join_all(documents.iter().map(|document| {
            let id = std::iter::once(&document.id);
            let params: Vec<&Param> =
                if id_last { document.values.iter().chain(id).collect() } else { id.chain(&document.values).collect() };
            client.execute_raw(single, params)
        }));
        // A transaction in which something failed is rolled back by this.
        let end = async { if together { client.batch_execute("COMMIT").await } else { Ok(()) } };
        // Sent in this order, in one go.
        let (begun, outcomes, ended) = futures_util::future::join3(begin, written, end).await;
        begun?;
        if outcomes.iter().all(Result::is_ok) {
            ended?;
        }
        Ok(outcomes)
    });
    Turn::within(deadline, limit, request).await
}

fn count(places: &[u32], outcomes: Vec<Result<u64, Error>>, tally: &mut Tally) {
    for (place, outcome) in places.iter().zip(outcomes) {
        match outcome {
            Ok(0) => tally.fail_at(&[*place], failure(ErrorClass::Client, "no document has this id")),
            Ok(_) => tally.succeed(1),
            Err(error) => tally.fail_at(&[*place], request(&error)),
        }
    }
}
