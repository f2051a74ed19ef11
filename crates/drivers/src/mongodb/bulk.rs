//! Bulk requests: the documents in one command, or in several if one command cannot hold them.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use loadframe_engine::driver::{ErrorClass, Failure};

use super::bson::{array, decimal, document, field, fields, int, nested, switch, text, value};
use super::error::inside;
use super::operation::Concern;
use super::request::{ID, command, write_concern};
use crate::crud;
use crate::crud::{Action, Bulk, Scalar};
use crate::tally::Tally;
use loadframe_engine::util::json::Unexpected;

/// Maximum size of the documents in one command. The server accepts 16 MiB, plus some overhead.
const LIMIT: usize = 16 * 1024 * 1024;
/// Maximum number of documents in one command.
const MOST: usize = 100_000;

/// Commands, each with the indices of its documents in the request.
pub type Commands = Vec<(RawDocumentBuf, Vec<u32>)>;

/// Writes the commands of request number `k`, or of its documents at the indices `only`. Documents that cannot be
/// encoded count in `tally` as failed. Fails if a command cannot be encoded.
pub fn commands(
    (bulk, only): (&Bulk, Option<&[u32]>),
    concern: Option<Concern>,
    k: u64,
    tally: &mut Tally,
) -> Result<Commands, Unexpected> {
    let mut lines = Vec::new();
    bulk.documents(k, &mut lines);
    let name = match verb(bulk) {
        Verb::Insert => ("insert", "documents"),
        Verb::Change { .. } => UPDATE,
        Verb::Delete => ("delete", "deletes"),
    };
    gathered(
        (0..).zip(Bulk::chosen(&lines, only)),
        |out, (_, line)| item(out, bulk, line),
        |items, ends| whole(name, &bulk.collection, concern, items, ends),
        "a document of the corpus is not a JSON object, or has no id",
        tally,
    )
}

/// Name of the update command, and of its list.
pub const UPDATE: (&str, &str) = ("update", "updates");

/// Packs documents, each with its position, into as few commands as possible: up to 16 MiB and 100,000 documents each.
/// `item` appends an encoded document, and `whole` builds a command from the encoded documents and their end offsets;
/// returns its error. A document that cannot be encoded counts in `tally` as failed, with the message `unfit`.
pub fn gathered<T>(
    documents: impl Iterator<Item = (u32, T)>,
    mut item: impl FnMut(&mut Vec<u8>, T) -> Result<(), Unexpected>,
    whole: impl Fn(&[u8], &[usize]) -> Result<RawDocumentBuf, Unexpected>,
    unfit: &str,
    tally: &mut Tally,
) -> Result<Commands, Unexpected> {
    let mut commands = Vec::new();
    let (mut items, mut ends, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (place, document) in documents {
        let begin = items.len();
        if item(&mut items, document).is_err() {
            items.truncate(begin);
            tally.fail_at(&[place], Failure::new(ErrorClass::Client, unfit));
            continue;
        }
        if !ends.is_empty() && (items.len() > LIMIT || ends.len() == MOST) {
            let rest = items.split_off(begin);
            commands.push((whole(&items, &ends)?, std::mem::take(&mut places)));
            items = rest;
            ends.clear();
        }
        ends.push(items.len());
        places.push(place);
    }
    if !ends.is_empty() {
        commands.push((whole(&items, &ends)?, places));
    }
    Ok(commands)
}

/// Builds one command from all encoded `items`, which end at the offsets `ends`. `name` and `list` name the command and
/// its list. The server continues after a failed document.
pub fn whole(
    (name, list): (&str, &str),
    collection: &str,
    concern: Option<Concern>,
    items: &[u8],
    ends: &[usize],
) -> Result<RawDocumentBuf, Unexpected> {
    command(|out| {
        out.reserve(items.len() + 8 * ends.len());
        text(out, name, collection);
        // Continue after a failed document.
        switch(out, "ordered", false);
        array(out, list, |out| {
            let mut begin = 0;
            for (index, end) in ends.iter().enumerate() {
                let mut digits = [0; 20];
                out.push(0x03);
                out.extend_from_slice(decimal(index, &mut digits));
                out.push(0);
                out.extend_from_slice(&items[begin..*end]);
                begin = *end;
            }
            Ok::<_, Unexpected>(())
        })?;
        write_concern(out, concern)
    })
}

/// The command that performs a document's action. `replace`: it replaces the whole document. `make`: it creates a
/// missing one.
enum Verb {
    Insert,
    Change { replace: bool, make: bool },
    Delete,
}

/// Returns the command for the bulk request's action. To index a document without an id is to insert it.
fn verb(bulk: &Bulk) -> Verb {
    match bulk.action {
        Action::Create => Verb::Insert,
        // A document without an id is new and replaces nothing.
        Action::Index if bulk.id.is_none() => Verb::Insert,
        Action::Index => Verb::Change { replace: true, make: true },
        Action::Update => Verb::Change { replace: false, make: false },
        Action::Upsert => Verb::Change { replace: false, make: true },
        Action::Delete => Verb::Delete,
    }
}

/// Appends one document's element of a command to `out`. `line` is the document in JSON. Fails if it is not an object,
/// lacks its id or cannot be encoded.
fn item(out: &mut Vec<u8>, bulk: &Bulk, line: &[u8]) -> Result<(), Unexpected> {
    let id = match &bulk.id {
        Some(name) => Some(id(line, name.as_bytes())?),
        None => None,
    };
    let by_id = |out: &mut Vec<u8>| id.as_ref().map_or(Ok(()), |id| field(out, ID, &Scalar::Text(id.as_str().into())));
    let rest = |out: &mut Vec<u8>| fields(out, line, id.as_ref().map(|_| ID));
    document(out, |out| match verb(bulk) {
        Verb::Insert => {
            by_id(out)?;
            rest(out)
        }
        Verb::Change { replace, make } => {
            nested(out, "q", by_id)?;
            nested(out, "u", |out| if replace { rest(out) } else { nested(out, "$set", rest) })?;
            if make {
                switch(out, "upsert", true);
            }
            Ok(())
        }
        Verb::Delete => {
            nested(out, "q", by_id)?;
            int(out, "limit", 1);
            Ok(())
        }
    })
}

/// Returns a document's id, its field `name`, as text, the type of ids in all stores. Fails if it is neither text nor
/// an integer, or the document is not a JSON object.
fn id(line: &[u8], name: &[u8]) -> Result<String, Unexpected> {
    let mut id = None;
    crud::fields(line, |field, value| {
        if field == name {
            id = match value {
                Scalar::Text(text) => Some(text.into_owned()),
                Scalar::Int(whole) => Some(whole.to_string()),
                _ => None,
            };
        }
        Ok(())
    })?;
    id.ok_or(Unexpected)
}

/// Counts the outcome of one command's documents in `tally`. `places` holds their indices in the request. Documents
/// that the server did not find or write fail without a known index, and so do all written ones if the write concern
/// was not met.
pub fn count(answer: Result<&RawDocument, Failure>, places: &[u32], action: Action, tally: &mut Tally) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(failure) => return tally.fail_at(places, failure),
    };
    let sent = places.len() as u64;
    let mut failed = 0;
    for error in documents(answer, "writeErrors") {
        failed += 1;
        let index = value(error, "index").and_then(RawBsonRef::as_i32).and_then(|index| usize::try_from(index).ok());
        let mut failure = inside(error);
        if action == Action::Upsert && overtaken(error) {
            failure.class = ErrorClass::Rejected;
        }
        match index.and_then(|index| places.get(index)) {
            Some(place) => tally.fail_at(&[*place], failure),
            None => tally.fail(failure),
        }
    }
    // The answer to an unacknowledged write lacks a number.
    let rest = sent.saturating_sub(failed);
    let done = written(answer).unwrap_or(rest).min(rest);
    match value(answer, "writeConcernError").and_then(RawBsonRef::as_document) {
        Some(error) if done > 0 => tally.fail(inside(error)),
        _ => tally.succeed(done),
    }
    if done < rest {
        let message = if action == Action::Update || action == Action::Delete { "not found" } else { "not written" };
        tally.fail(Failure::new(ErrorClass::Client, message));
    }
}

/// Returns whether a write error means that another client created the document concurrently. A retry then finds it.
fn overtaken(error: &RawDocument) -> bool {
    const DUPLICATE_KEY: i32 = 11000;
    value(error, "code").and_then(RawBsonRef::as_i32) == Some(DUPLICATE_KEY)
        && value(error, "errmsg").and_then(RawBsonRef::as_str).is_some_and(|words| words.contains(" _id_ "))
}

/// Iterates over the documents in the list `name` of an answer; none if the list is missing.
pub fn documents<'a>(answer: &'a RawDocument, name: &str) -> impl Iterator<Item = &'a RawDocument> {
    let list = value(answer, name).and_then(RawBsonRef::as_array);
    list.into_iter().flatten().filter_map(|element| element.ok()?.as_document())
}

/// Returns the number of documents that a command found or created, if the answer has it.
pub fn written(answer: &RawDocument) -> Option<u64> {
    value(answer, "n").and_then(number)
}

/// Converts a value of an answer to a whole number; `None` if it is negative or not an integer.
pub fn number(number: RawBsonRef<'_>) -> Option<u64> {
    let number = number.as_i32().map(i64::from).or(number.as_i64())?;
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bson::{RawArrayBuf, rawdoc};
    use loadframe_engine::driver::Reply;

    use super::*;

    /// Counts the answer to a command with 10 documents. Returns the number of successful ones, and class and message
    /// of the failure.
    fn counted(answer: Result<&RawDocument, Failure>, action: Action) -> (u64, Option<(ErrorClass, String)>) {
        let mut tally = Tally::default();
        count(answer, &(0..10).collect::<Vec<_>>(), action, &mut tally);
        let now = Instant::now();
        let Reply { documents, outcome, .. } = tally.settle(now, now);
        (documents, outcome.err().map(|failure| (failure.class, failure.message)))
    }

    /// Returns the indices of the rejected and of the refused documents.
    fn places(answer: &RawDocument, action: Action) -> (Vec<u32>, Vec<u32>) {
        let mut tally = Tally::default();
        count(Ok(answer), &(0..10).collect::<Vec<_>>(), action, &mut tally);
        let now = Instant::now();
        let Reply { rejected, refused, .. } = tally.settle(now, now);
        (rejected, refused)
    }

    #[test]
    fn the_answer_counts_written_and_failed_documents() {
        assert_eq!(counted(Ok(&rawdoc! {"n": 10, "ok": 1.0}), Action::Create), (10, None));
        assert_eq!(counted(Ok(&rawdoc! {"ok": 1.0}), Action::Create), (10, None));
        let duplicate = rawdoc! {"n": 9, "writeErrors": [{"index": 3, "code": 11000, "errmsg": "E11000"}]};
        assert_eq!(counted(Ok(&duplicate), Action::Create), (9, Some((ErrorClass::Item, "E11000".into()))));
        let unknown: RawArrayBuf =
            std::iter::repeat_n(rawdoc! {"code": 1, "errmsg": "not of a document"}, 11).collect();
        let more = rawdoc! {"n": 9, "writeErrors": unknown};
        assert_eq!(counted(Ok(&more), Action::Create).0, 0);
        let words = "E11000 duplicate key error collection: loadframe.ads index: _id_ dup key: { _id: \"a\" }";
        let overtaken = rawdoc! {"n": 9, "writeErrors": [{"index": 3, "code": 11000, "errmsg": words}]};
        assert_eq!(counted(Ok(&overtaken), Action::Upsert), (9, Some((ErrorClass::Item, words.into()))));
        assert_eq!(places(&overtaken, Action::Upsert), (vec![3], vec![]), "it may pass");
        assert_eq!(places(&overtaken, Action::Create), (vec![], vec![3]));
        assert_eq!(places(&duplicate, Action::Upsert), (vec![], vec![3]), "another index has it");
        let missing = rawdoc! {"n": 7, "nModified": 7};
        assert_eq!(counted(Ok(&missing), Action::Update), (7, Some((ErrorClass::Item, "not found".into()))));
        let unsure = rawdoc! {"n": 10, "writeConcernError": {"code": 64, "errmsg": "waiting"}};
        assert_eq!(counted(Ok(&unsure), Action::Create), (0, Some((ErrorClass::Timeout, "waiting".into()))));
        let gone = Err(Failure::new(ErrorClass::Connect, "gone"));
        assert_eq!(counted(gone, Action::Create), (0, Some((ErrorClass::Connect, "gone".into()))));
    }

    #[test]
    fn ids_are_texts_and_documents_without_one_fail() {
        assert_eq!(id(br#"{"a": 1, "key": 5}"#, b"key").unwrap(), "5");
        assert_eq!(id(br#"{"key": "x"}"#, b"key").unwrap(), "x");
        assert!(id(br#"{"a": 1}"#, b"key").is_err());
        assert!(id(b"[1]", b"key").is_err());
    }
}
