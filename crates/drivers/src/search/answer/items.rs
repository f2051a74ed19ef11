//! Answers with one item per document of the request.

use loadframe_engine::driver::{ErrorClass, Failure};
use serde_json::Value;

use super::{Verdict, failure, words};
use crate::http1::status::class_of;
use loadframe_engine::util::json::{Cursor, Unexpected};

/// Judges `{"docs": [{"found": true, ...}, {"error": {...}}]}`, and counts the found documents. The first other error
/// is the failure; documents of a missing index count as not found. Fails if the answer has another form.
pub(super) fn documents(body: &[u8]) -> Result<Verdict, Unexpected> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| Unexpected)?;
    let docs = answer["docs"].as_array().ok_or(Unexpected)?;
    let there = docs.iter().filter(|doc| doc["found"] == true).count() as u64;
    let failed = |doc: &&Value| !doc["error"].is_null() && doc["error"]["type"] != "index_not_found_exception";
    let outcome = match docs.iter().find(failed) {
        None => Ok(()),
        Some(doc) => failure(ErrorClass::Item, words(&doc["error"])),
    };
    Ok(Verdict::new(there, outcome))
}

/// Error type of a write to a blocked index.
const BLOCKED: &str = "cluster_block_exception";

/// Error type of a request beyond a cluster limit, such as the number of shards.
const DISALLOWED: &str = "validation_exception";

/// Statuses of documents with invalid contents.
const OF_CONTENTS: [u16; 2] = [400, 413];

/// Judges the answer to a bulk request with `sent` items, and returns the positions of failed ones.
/// The failure has class Rejected if all of them met an overload or, with `events`, a blocked index; otherwise Item.
/// `events`: an item is lost only if its contents are invalid; one that failed because of a blocked index or missing
/// credentials may be retried. Fails if the answer has another form, or errors in another number of items.
pub(super) fn bulk(body: &[u8], sent: u64, events: bool) -> Result<Verdict, Unexpected> {
    let mut errors = None;
    Cursor::new(body).object(|name, cursor| {
        if name == b"errors" {
            errors = Some(cursor.boolean()?);
            return Ok(false);
        }
        cursor.skip().map(|()| true)
    })?;
    if !errors.ok_or(Unexpected)? {
        return Ok(Verdict::new(sent, Ok(())));
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| Unexpected)?;
    let results = answer["items"].as_array().ok_or(Unexpected)?;
    if results.len() as u64 != sent {
        return Err(Unexpected);
    }
    // An item is {"index": {"status": 201, ...}}, with the name of its action as key.
    let items =
        results.iter().map(|item| item.as_object().and_then(|item| item.values().next()).unwrap_or(&Value::Null));
    let failed: Vec<(u32, &Value)> = (0..).zip(items).filter(|(_, item)| !item["error"].is_null()).collect();
    let kept_out = |item: &Value| events && item["error"]["type"] == BLOCKED;
    let pushed_back = failed.iter().all(|(_, item)| item["status"] == 429 || kept_out(item));
    let class = if pushed_back { ErrorClass::Rejected } else { ErrorClass::Item };
    let (_, first) = failed.first().ok_or(Unexpected)?;
    let may_pass = |item: &Value| {
        let status = item["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let of_contents = || status.is_some_and(|status| OF_CONTENTS.contains(&status));
        match events {
            true => kept_out(item) || !of_contents() || item["error"]["type"] == DISALLOWED,
            false => status.and_then(class_of).is_some_and(ErrorClass::may_pass),
        }
    };
    let (mut rejected, mut refused) = (Vec::new(), Vec::new());
    for (place, item) in &failed {
        if may_pass(item) { &mut rejected } else { &mut refused }.push(*place);
    }
    let items = failed.len() as u64;
    let message =
        format!("{items} of {sent} items failed, the first with {}: {}", first["status"], words(&first["error"]));
    let verdict = Verdict::new(sent.saturating_sub(items), Err(Failure::new(class, message)));
    Ok(Verdict { rejected, lost: !refused.is_empty(), refused, ..verdict })
}

/// Judges the answer to a bulk request with `sent` deletions, like `bulk`. A missing document, which has status 404 and
/// no error, is a failure that cannot be retried.
pub(super) fn deletions(body: &[u8], sent: u64) -> Result<Verdict, Unexpected> {
    let mut verdict = bulk(body, sent, false)?;
    if memchr::memmem::find(body, b"not_found").is_none() {
        return Ok(verdict);
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| Unexpected)?;
    let items = answer["items"].as_array().ok_or(Unexpected)?;
    let missing = |item: &&Value| item["delete"]["status"] == 404 && item["delete"]["error"].is_null();
    let places: Vec<u32> = (0..).zip(items).filter(|(_, item)| missing(item)).map(|(place, _)| place).collect();
    if places.is_empty() {
        return Ok(verdict);
    }
    verdict.documents = verdict.documents.saturating_sub(places.len() as u64);
    let message = match verdict.outcome {
        Ok(()) => format!("{} of {sent} documents do not exist", places.len()),
        Err(failure) => failure.message,
    };
    verdict.refused.extend(places);
    verdict.refused.sort_unstable();
    Ok(Verdict { outcome: failure(ErrorClass::Item, message), lost: true, ..verdict })
}
