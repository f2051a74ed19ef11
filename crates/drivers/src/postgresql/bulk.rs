//! Bulk requests. Documents to add or replace go in statements with many rows. Changes and deletions go in one
//! transaction. If a document is wrong, all are resent one by one, so that the others succeed.

use std::borrow::Cow;
use std::cell::RefCell;

use futures_util::future::join_all;
use loadframe_engine::driver::{ErrorClass, Failure, Reply};
use tokio_postgres::{Client, Error, Statement};

use super::connection::Broken;
use super::error::{is_of_data, request as request_failure};
use super::request::Param;
use super::statements::{Turn, no_name, quoted_columns};
use super::table::Table;
use crate::crud::{Action, Bulk, Scalar, fields};
use crate::exchanges::add_line;
use crate::net::exchange::Exchanged;
use crate::tally::Tally;

/// Largest number of values in one statement: the protocol counts them in 16 bits.
const VALUES: usize = 65_535;
/// Key prefix of single-row statements, next to the many-row statements of the same operation.
const SINGLE: &[u8] = b"single\0";

/// One document: its position in the request, its id, and its other values.
struct Document<'a> {
    place: u32,
    id: Param<'a>,
    values: Vec<Param<'a>>,
}

/// Documents with the same columns; the key contains the column names, each followed by a zero byte.
type Group<'a> = (String, Vec<Document<'a>>);

/// Sends the documents of request number `k`, or those at the positions `only`, after preparing all statements. Returns
/// the reply of [`Tally::settle`], without bytes and node: the number of written documents, and the positions of failed
/// ones. A broken connection or a timeout fails the documents of its statement.
pub async fn ask(turn: &mut Turn<'_>, table: &Table, (bulk, only): (&Bulk, Option<&[u32]>), k: u64) -> Reply {
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
            Err(failure) => tally.fail_at(&[place], failure),
        }
    }
    // Statements are prepared before the first is sent, so that the service time excludes it.
    let mut ready = Vec::new();
    for (key, documents) in &groups {
        let columns = if bulk.action == Action::Delete { Vec::new() } else { columns(table, key) };
        // `ON CONFLICT DO NOTHING` changes no row if the document exists.
        let kept = text(table, bulk.action, &columns, 1).ends_with("DO NOTHING");
        let most = (VALUES / (columns.len() + 1)).max(1);
        for chunk in documents.chunks(most) {
            match prepare(turn, table, bulk.action, (key.as_bytes(), &columns), chunk.len()).await {
                Ok(statements) => ready.push((chunk, statements, kept)),
                Err(failure) => tally.fail_at(&places(chunk), failure),
            }
        }
    }
    let mut whole = None;
    for (chunk, statements, kept) in &ready {
        let begun = turn.connection.marks.begin();
        send(turn, chunk, statements, (bulk.action, *kept), &mut tally).await;
        // A failure can follow one that the server answered.
        let answered = tally.first().is_none();
        whole = Some(turn.connection.marks.end(begun, answered).after(whole));
    }
    let Exchanged { sent, done, overhead, .. } = whole.unwrap_or_else(Exchanged::never);
    let reply = Reply { overhead, ..tally.settle(sent, done) };
    if let Some(shown) = turn.shown {
        if let Some((key, documents)) = groups.first() {
            add_line(&mut shown.request, &text(table, bulk.action, &columns(table, key), documents.len().min(2)));
        }
        add_line(&mut shown.answer, &format!("{} documents", reply.documents));
    }
    reply
}

/// Returns the quoted columns of documents with this key: their fields, or the column of whole documents.
fn columns(table: &Table, key: &str) -> Vec<String> {
    table.document.as_ref().map_or_else(|| quoted_columns(key), |document| vec![document.clone()])
}

/// Reads a document of the corpus. Returns the key of its group, and the document. `number` is its id if the workload
/// names no id field and the document lacks the key column; `place` is its position in the request. Fails if it is not
/// a JSON object or lacks the named id field.
fn read<'a>(
    bulk: &Bulk,
    table: &Table,
    line: &'a [u8],
    number: u64,
    place: u32,
) -> Result<(String, Document<'a>), Failure> {
    let field = bulk.id.as_deref().unwrap_or(table.key.trim_matches('"'));
    let mut key = Vec::new();
    let mut id = None;
    let mut values = Vec::new();
    let read = fields(line, |name, value| {
        if name == field.as_bytes() {
            id = Some(match value {
                Scalar::Text(text) => Param::Text(Cow::Owned(text.into_owned().into_bytes())),
                value => Param::Scalar(value),
            });
        } else if table.document.is_none() && bulk.action != Action::Delete {
            key.extend_from_slice(name);
            key.push(0);
            values.push(Param::Scalar(value));
        }
        Ok(())
    });
    read.map_err(|_| Failure::new(ErrorClass::Client, "a document of the corpus is not a JSON object"))?;
    let key = String::from_utf8(key).map_err(|_| no_name())?;
    if table.document.is_some() && bulk.action != Action::Delete {
        values.push(Param::Scalar(Scalar::Json(line)));
    }
    let id = match id {
        Some(id) => id,
        // Without an id field, the document's number in the corpus is its id.
        None if bulk.id.is_none() => Param::Scalar(Scalar::Int(number as i64)),
        None => {
            return Err(Failure::new(ErrorClass::Client, format!("a document has no field \"{field}\" for its id")));
        }
    };
    Ok((key, Document { place, id, values }))
}

/// Returns the statement for an action on `rows` documents with these columns.
/// Updates and deletions are statements for one document.
fn text(table: &Table, action: Action, columns: &[String], rows: usize) -> String {
    match action {
        Action::Index => table.replace(columns, rows),
        Action::Create => table.insert(columns, rows),
        Action::Upsert => table.upsert(columns, rows),
        Action::Update => table.update(columns),
        Action::Delete => table.delete(),
    }
}

/// The prepared statements of one chunk: for one document, and for all of them if they fit one statement.
type Statements = (Statement, Option<Statement>);

/// Returns the statements for `rows` documents with these columns; prepares them unless this connection already has.
/// `key` distinguishes columns. Fails if a statement is invalid or late.
async fn prepare(
    turn: &mut Turn<'_>,
    table: &Table,
    action: Action,
    (key, columns): (&[u8], &[String]),
    rows: usize,
) -> Result<Statements, Failure> {
    let single = turn.statement(&[SINGLE, key].concat(), || text(table, action, columns, 1)).await?;
    let many = match action {
        Action::Index | Action::Create | Action::Upsert if rows > 1 => {
            let key = [&rows.to_ne_bytes(), key].concat();
            Some(turn.statement(&key, || text(table, action, columns, rows)).await?)
        }
        _ => None,
    };
    Ok((single, many))
}

/// Sends documents with the same columns, and counts their outcomes in `tally`.
/// If the contents of a document are wrong, sends all again, one by one. `kept`: a statement that changes no row counts
/// as a success.
async fn send(
    turn: &mut Turn<'_>,
    documents: &[Document<'_>],
    (single, many): &Statements,
    (action, kept): (Action, bool),
    tally: &mut Tally,
) {
    let places = places(documents);
    let id_last = action == Action::Update;
    let (connection, deadline, limit) = turn.parts();
    let outcome = match many {
        Some(many) => {
            let params: Vec<&Param> = documents.iter().flat_map(|document| document.params(id_last)).collect();
            let request = deadline.within(limit.due, connection.run(|client| client.execute_raw(many, params))).await;
            request.map(|outcome| outcome.map(|rows| written(rows, places.len() as u64, kept, tally)))
        }
        None if documents.len() > 1 => {
            let request = in_one_transaction(turn, documents, single, id_last).await;
            request.map(|outcome| outcome.map(|changed| count(&places, changed.into_iter().map(Ok), kept, tally)))
        }
        None => return count(&places, one_by_one(turn, documents, single, id_last).await.into_iter(), kept, tally),
    };
    match outcome {
        Some(Ok(())) => {}
        // One wrong document fails the whole statement; send all one by one, so that the others succeed.
        Some(Err(Broken::Error(error))) if is_of_data(&error) => {
            count(&places, one_by_one(turn, documents, single, id_last).await.into_iter(), kept, tally);
        }
        // After an error no statement counts as committed, even if its own answer was a success.
        Some(Err(broken)) => tally.fail_at(&places, broken.failure()),
        None => tally.fail_at(&places, turn.execution.limit.missed()),
    }
}

/// Sends a statement per document, pipelined in one transaction. Returns the number of rows that each changed, if the
/// transaction was committed, else the first error; `None` on timeout. `id_last`: the id is the last value.
async fn in_one_transaction(
    turn: &mut Turn<'_>,
    documents: &[Document<'_>],
    statement: &Statement,
    id_last: bool,
) -> Option<Result<Vec<u64>, Broken>> {
    let (connection, deadline, limit) = turn.parts();
    let request = connection.run(async |client: &Client| {
        let written =
            join_all(documents.iter().map(|document| client.execute_raw(statement, document.params(id_last))));
        // If a statement of the transaction fails, COMMIT rolls back.
        let (begun, outcomes, ended) =
            futures_util::future::join3(client.batch_execute("BEGIN"), written, client.batch_execute("COMMIT")).await;
        begun?;
        // The first error is the cause: the server refuses all later statements.
        let changed = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        ended?;
        Ok(changed)
    });
    deadline.within(limit.due, request).await
}

/// Sends a statement per document, pipelined, each as its own transaction. Returns the number of changed rows or the
/// failure of each. Documents answered before a broken connection or a timeout keep their outcomes. `id_last`: the id
/// is the last value.
async fn one_by_one(
    turn: &mut Turn<'_>,
    documents: &[Document<'_>],
    statement: &Statement,
    id_last: bool,
) -> Vec<Result<u64, Failure>> {
    let answers: RefCell<Vec<Option<Result<u64, Error>>>> = RefCell::new(documents.iter().map(|_| None).collect());
    let (connection, deadline, limit) = turn.parts();
    let request = connection.run(async |client: &Client| {
        join_all(documents.iter().enumerate().map(async |(at, document)| {
            let answer = client.execute_raw(statement, document.params(id_last)).await;
            answers.borrow_mut()[at] = Some(answer);
        }))
        .await;
        Ok(())
    });
    let unanswered = match deadline.within(limit.due, request).await {
        Some(Err(broken)) => broken.failure(),
        Some(Ok(())) | None => limit.missed(),
    };
    let outcome = |answer: Option<Result<u64, Error>>| match answer {
        Some(answer) => answer.map_err(|error| request_failure(&error)),
        None => Err(unanswered.clone()),
    };
    answers.into_inner().into_iter().map(outcome).collect()
}

impl Document<'_> {
    /// Returns the values of its statement: the id first, or last if `id_last`.
    fn params(&self, id_last: bool) -> Vec<&Param<'_>> {
        let id = std::iter::once(&self.id);
        if id_last { self.values.iter().chain(id).collect() } else { id.chain(&self.values).collect() }
    }
}

/// Returns the positions of documents in the request.
fn places(documents: &[Document<'_>]) -> Vec<u32> {
    documents.iter().map(|document| document.place).collect()
}

/// Counts the outcome of each document, its number of changed rows or a failure, in `tally`. `kept`: a statement that
/// changes no row counts as a success.
fn count(places: &[u32], outcomes: impl Iterator<Item = Result<u64, Failure>>, kept: bool, tally: &mut Tally) {
    for (place, outcome) in places.iter().zip(outcomes) {
        match outcome {
            Ok(0) if !kept => tally.fail_at(&[*place], Failure::new(ErrorClass::Client, "no document has this id")),
            Ok(_) => tally.succeed(1),
            Err(failure) => tally.fail_at(&[*place], failure),
        }
    }
}

/// Counts the documents of one statement that wrote `rows` of `sent` in `tally`. `kept`: all count as successes.
/// Otherwise missing rows fail at unknown positions, because the server does not report which rows a trigger dropped.
fn written(rows: u64, sent: u64, kept: bool, tally: &mut Tally) {
    if kept || rows >= sent {
        return tally.succeed(sent);
    }
    tally.succeed(rows);
    tally.fail(Failure::new(
        ErrorClass::Client,
        format!("the server wrote {rows} of {sent} rows; a trigger may drop rows"),
    ));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loadframe_engine::driver::{Context, Driver};
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::Variables;
    use loadframe_null_server::NullServer;
    use serde_json::json;

    use super::super::Postgres;
    use super::super::table::tests::table;
    use super::*;

    #[test]
    fn a_document_with_a_field_that_is_not_text_fails_alone() {
        let corpora = BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 1}))]);
        let corpus = Corpora::open(&corpora, 1).unwrap().get("trips").unwrap();
        let bulk = Bulk { collection: "t".to_owned(), corpus, size: 1, action: Action::Index, id: None };
        let read = |line| read(&bulk, &table(false), line, 7, 0).map(|(key, _)| key);
        assert_eq!(read(b"{\"a\": 1, \"b\": 2}").unwrap(), "a\0b\0");
        assert_eq!(read(b"{\"\xff\": 1}").unwrap_err().message, "the name of a field is not text");
    }

    #[test]
    fn an_unreadable_document_is_refused_at_its_position() {
        let server = NullServer::start("postgresql").unwrap();
        let target = json!({"driver": "postgresql", "hosts": [server.address().to_string()], "timeout": 60});
        let driver = Postgres::new(&serde_json::from_value(target).unwrap()).unwrap();
        let corpora = BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 4}))]);
        let context = Context { variables: Variables::default(), corpora: Corpora::open(&corpora, 1).unwrap() };
        let form = json!({"bulk": {"collection": "c", "corpus": "trips", "size": 2, "id": "missing"}});
        let operation = driver.map(&form, &context).unwrap();
        let (mut connection, draw) = (driver.connection(0), Draw::new(1, 1, 0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(async {
            driver.verify().await.unwrap();
            driver.execute(&mut connection, &operation, &context, &draw, None).await
        });
        assert!(reply.outcome.unwrap_err().message.contains("no field \"missing\""));
        assert_eq!((reply.documents, reply.refused), (0, vec![0, 1]));
    }
}
