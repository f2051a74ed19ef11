//! Judgement of answers. A 200 with item errors, a timed-out shard or too few hits is a failure.
//!
//! A success is recognised by a few fields, without parsing the rest. Only the reason of a failure is parsed.

mod items;
mod shards;

use loadframe_engine::driver::{ErrorClass, Failure, Recall};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;

use crate::assertion::Assertion;
use crate::excerpt::excerpt;
use crate::http1::status::class_of;
use crate::search::answer::items::{bulk, deletions, documents};
use crate::search::answer::shards::Shards;
use loadframe_engine::util::json::{Cursor, Unexpected};
use loadframe_engine::workload::json_pointer::Pointer;

/// Expected form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Any answer with a success status.
    Status {
        /// Documents per success.
        documents: u64,
    },
    /// Any answer with a success status, or with 404: the object to remove does not exist.
    Absent,
    /// Any answer with a success status, or the error that the object to create exists.
    Present,
    /// Any answer with a success status and without an error inside; see `unfailed`.
    Unfailed,
    /// An object; if it reports on `_shards`, all must have succeeded.
    Shards {
        /// Documents per success.
        documents: u64,
    },
    /// A document.
    Document,
    /// The existing documents of a list of ids.
    Documents,
    /// Hits from all shards, within the time limit.
    Search,
    /// One successful answer per search. Counts the hits of the search with the fewest.
    Searches,
    /// Aggregations from all shards, within the time limit. Buckets count as documents and as hits.
    Aggregation,
    /// A number of documents, counted as hits.
    Count,
    /// A table. Rows count as documents and as hits.
    Rows,
    /// Like `Rows`, for a table that lists the values of each column.
    Columns,
    /// Events or sequences of events. They count as documents and as hits.
    Events,
    /// A complete snapshot, or an accepted one if the request does not wait.
    Snapshot,
    /// One item for each document, none with an error.
    Bulk,
    /// Like `Bulk`, for deletions: a missing document is an error.
    Deletions,
    /// Like `Bulk`, for events: writes to a blocked index may be retried.
    TakenIn,
    /// A write block that is in effect on all shards.
    Blocked,
    /// Like `Bulk`, for a request with a fixed number of documents, which is retried only as a whole.
    Items {
        /// Documents per request.
        documents: u64,
    },
}

/// Judgement of an answer.
#[derive(Debug)]
pub struct Verdict {
    /// Documents that the store stored or returned, even if others failed.
    pub documents: u64,
    /// Success, or the failure.
    pub outcome: Result<(), Failure>,
    /// Hits that the search found, if reported; otherwise the returned hits.
    pub hits: u64,
    /// Whether the store stopped counting hits.
    pub cut_off: bool,
    /// See [`Reply::rejected`](loadframe_engine::driver::Reply::rejected).
    pub rejected: Vec<u32>,
    /// See [`Reply::recall`](loadframe_engine::driver::Reply::recall).
    pub recall: Option<Recall>,
    /// See [`Reply::lost`](loadframe_engine::driver::Reply::lost).
    pub lost: bool,
    /// See [`Reply::refused`](loadframe_engine::driver::Reply::refused).
    pub refused: Vec<u32>,
}

impl Verdict {
    /// Creates a judgement with this number of documents and this outcome, without hits.
    fn new(documents: u64, outcome: Result<(), Failure>) -> Self {
        Self {
            documents,
            outcome,
            hits: 0,
            cut_off: false,
            rejected: Vec::new(),
            lost: false,
            refused: Vec::new(),
            recall: None,
        }
    }

    /// Checks the workload's assertion on the answer `body`, which `judge` accepted: hits, fields and recall. Sets
    /// outcome and recall. Does nothing after a failure.
    pub fn assert(&mut self, judge: Judge, assertion: &Assertion, values: &Values, body: &[u8]) {
        if self.outcome.is_err() {
            return;
        }
        let hint = if self.cut_off { "; the store counted no further, track_total_hits makes it" } else { "" };
        self.outcome = assertion.judge_hits(self.hits, hint).and_then(|()| judge.fields(assertion, values, body));
        let (recall, outcome) = assertion.judge_recall(values, |most| ids(body, most).unwrap_or_default());
        self.recall = recall;
        if self.outcome.is_ok() {
            self.outcome = outcome;
        }
    }
}

impl Judge {
    /// Any answer with a success status, without documents.
    pub const DONE: Self = Self::Status { documents: 0 };
    /// Like `DONE`, without failed shards and without a time-out of the store.
    pub const ON_SHARDS: Self = Self::Shards { documents: 0 };

    /// Returns whether assertions on hits apply.
    pub fn counts(self) -> bool {
        matches!(
            self,
            Self::Search | Self::Searches | Self::Aggregation | Self::Count | Self::Rows | Self::Columns | Self::Events
        )
    }

    /// Returns whether each document of a request succeeds or fails on its own.
    pub fn has_items(self) -> bool {
        matches!(self, Self::Bulk | Self::Deletions | Self::TakenIn | Self::Items { .. })
    }

    /// Returns whether judging a success requires its body.
    pub fn reads_body(self) -> bool {
        !matches!(self, Self::Status { .. } | Self::Document | Self::Absent | Self::Present)
    }

    /// Returns a failure if a field of the document or first hit in the answer `body` contradicts the assertion.
    /// A missing field is a failure too.
    pub fn fields(self, assertion: &Assertion, values: &Values, body: &[u8]) -> Result<(), Failure> {
        if !assertion.has_fields() {
            return Ok(());
        }
        assertion.judge_json(values, self.source(body), body)
    }

    /// Judges an answer with this HTTP status to a request that carried `sent` documents. An answer of another form is
    /// a failure of the server; an object that is already absent or present, as requested, is a success.
    pub fn judge(self, status: u16, body: &[u8], sent: u64) -> Verdict {
        if self == Self::Absent && status == 404 {
            return Verdict::new(0, Ok(()));
        }
        if self == Self::Present && status == 400 && is_error(body, EXISTS) {
            return Verdict::new(0, Ok(()));
        }
        if let Some(class) = class_of(status) {
            let message = format!("HTTP {status}: {}", reason(body));
            return Verdict::new(0, Err(Failure::new(class, message)));
        }
        let verdict = match self {
            Self::Status { documents } => Ok(Verdict::new(documents, Ok(()))),
            Self::Document => Ok(Verdict::new(1, Ok(()))),
            Self::Absent | Self::Present => Ok(Verdict::new(0, Ok(()))),
            // An answer other than JSON, such as a text table, reports no errors.
            Self::Unfailed => Ok(Verdict::new(0, unfailed(body, true).unwrap_or(Ok(())))),
            Self::Shards { documents } => {
                Shards::read(body).map(|shards| Verdict::new(documents, shards.outcome(body)))
            }
            Self::Documents => documents(body),
            Self::Search => Shards::read(body).and_then(|shards| shards.search(body)),
            Self::Searches => searches(body),
            Self::Aggregation => Shards::read(body).and_then(|shards| aggregation(&shards, body)),
            Self::Count => Shards::read(body).and_then(|shards| {
                let hits = Cursor::member(body, b"count")?.ok_or(Unexpected)?.whole()?;
                Ok(Verdict { hits, ..Verdict::new(0, shards.searched(body)) })
            }),
            Self::Rows => rows(body, elements),
            Self::Columns => rows(body, length_of_first),
            Self::Events => events(body),
            Self::Snapshot => snapshot(body),
            Self::Bulk => bulk(body, sent, false),
            Self::Deletions => deletions(body, sent),
            Self::TakenIn => bulk(body, sent, true),
            Self::Blocked => blocked(body),
            Self::Items { documents } => {
                bulk(body, documents, false).map(|verdict| Verdict::new(verdict.documents, verdict.outcome))
            }
        };
        verdict.unwrap_or_else(|Unexpected| {
            let message = format!("HTTP {status}, but not the answer that was expected: {}", excerpt(body));
            Verdict::new(0, Err(Failure::new(ErrorClass::Server, message)))
        })
    }

    /// Returns the document of a read, or of the first hit of a search, as JSON; `None` if there is none.
    fn source(self, body: &[u8]) -> Option<&[u8]> {
        let pointer = if self == Self::Search { "/hits/hits/0/_source" } else { "/_source" };
        Pointer::parse(pointer).ok()?.find(body).ok().flatten()
    }
}

/// Returns the ids of the first `most` hits of a search, in order. Fails if the answer has no list of hits with ids.
fn ids(body: &[u8], most: usize) -> Result<Vec<String>, Unexpected> {
    let hits = Cursor::member(body, b"hits")?.ok_or(Unexpected)?.value()?;
    let mut ids = Vec::new();
    Cursor::member(hits, b"hits")?.ok_or(Unexpected)?.array(|index, cursor| {
        if index >= most {
            return Ok(false);
        }
        let id = Cursor::member(cursor.value()?, b"_id")?.ok_or(Unexpected)?.string()?.into_owned();
        ids.push(String::from_utf8(id).map_err(|_| Unexpected)?);
        Ok(true)
    })?;
    Ok(ids)
}

/// Returns a failure of this class.
fn failure(class: ErrorClass, message: String) -> Result<(), Failure> {
    Err(Failure::new(class, message))
}

/// Judges an answer of any kind by the fields that report failures: `timed_out`, `_shards`, `errors` with `items`,
/// `failures`, and `responses`, whose elements may have these fields or `error`. `whole`: the answer may have
/// `responses`. `Unexpected` if it is not a JSON object.
fn unfailed(body: &[u8], whole: bool) -> Result<Result<(), Failure>, Unexpected> {
    let mut shards = Shards::default();
    let mut outcome = Ok(());
    Cursor::new(body).object(|name, cursor| {
        let value = cursor.value()?;
        match name {
            b"timed_out" => shards.timed_out = value == b"true",
            b"_shards" => {
                let failed = Cursor::member(value, b"failed").ok().flatten();
                shards.failed = failed.and_then(|mut failed| failed.whole().ok()).unwrap_or(0);
            }
            b"errors" if value == b"true" => outcome = failure(ErrorClass::Item, first_error(body)),
            b"failures" if value.first() == Some(&b'[') => {
                // An unreadable list, such as a deeply nested one, is a failure too.
                let Ok(failures) = serde_json::from_slice::<Vec<Value>>(value) else {
                    outcome = failure(ErrorClass::Item, "\"failures\" cannot be read".to_owned());
                    return Ok(true);
                };
                if let Some(first) = failures.first() {
                    let cause = if first["cause"].is_null() { first } else { &first["cause"] };
                    outcome = failure(ErrorClass::Item, format!("{} failures: {}", failures.len(), words(cause)));
                }
            }
            b"responses" if whole && value.first() == Some(&b'[') => Cursor::new(value).array(|_, cursor| {
                let response = cursor.value()?;
                if outcome.is_ok() && response.first() == Some(&b'{') {
                    outcome = match Cursor::member(response, b"error")? {
                        Some(_) => failure(ErrorClass::Item, reason(response)),
                        None => unfailed(response, false)?,
                    };
                }
                Ok(true)
            })?,
            _ => {}
        }
        Ok(true)
    })?;
    Ok(shards.outcome(body).and(outcome))
}

/// Returns the message of the first failed item in `{"errors": true, "items": [{"index": {"error": {...}}}]}`, or a
/// general one if no item has an error.
fn first_error(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let items = answer["items"].as_array().into_iter().flatten();
    let mut errors = items.filter_map(|item| item.as_object()?.values().next()?.get("error"));
    errors.next().map_or_else(|| "\"errors\" is true".to_owned(), words)
}

/// Judges `{"responses": [...]}`, the answer to several searches. A failed search has `error` instead of hits.
/// Counts the returned documents of all searches; `hits` is the smallest number of hits of a search. If one fails, the
/// outcome has class Item. Fails if the answer has another form, or no search.
fn searches(body: &[u8]) -> Result<Verdict, Unexpected> {
    let (mut total, mut failed) = (0, 0);
    let mut first = None;
    let mut documents = 0;
    let mut hits = u64::MAX;
    Cursor::member(body, b"responses")?.ok_or(Unexpected)?.array(|_, cursor| {
        let answer = cursor.value()?;
        total += 1;
        let outcome = if Cursor::member(answer, b"error")?.is_some() {
            failure(ErrorClass::Item, reason(answer))
        } else {
            let verdict = Shards::read(answer)?.search(answer)?;
            documents += verdict.documents;
            hits = hits.min(verdict.hits);
            verdict.outcome
        };
        if let Err(one) = outcome {
            failed += 1;
            first.get_or_insert(one);
        }
        Ok(true)
    })?;
    if total == 0 {
        return Err(Unexpected);
    }
    let outcome = match first {
        None => Ok(()),
        Some(Failure { message, .. }) => {
            let message = format!("{failed} of {total} searches failed, the first with {message}");
            failure(ErrorClass::Item, message)
        }
    };
    Ok(Verdict { hits, ..Verdict::new(documents, outcome) })
}

/// Judges a search with aggregations, and counts the buckets of the outermost ones as documents and hits.
/// Named buckets are members of an object. Fails without `aggregations`.
fn aggregation(shards: &Shards, body: &[u8]) -> Result<Verdict, Unexpected> {
    let mut buckets = 0;
    Cursor::member(body, b"aggregations")?.ok_or(Unexpected)?.object(|_, cursor| {
        let aggregation = cursor.value()?;
        if let Some(mut cursor) = Cursor::member(aggregation, b"buckets")? {
            buckets += if cursor.at_array()? {
                cursor.objects_in_array()?
            } else {
                let mut members = 0;
                cursor.object(|_, cursor| {
                    members += 1;
                    cursor.skip().map(|()| true)
                })?;
                members
            };
        }
        Ok(true)
    })?;
    Ok(Verdict { hits: buckets, ..Verdict::new(buckets, shards.searched(body)) })
}

/// Judges a table, and counts its rows: `rows` in Elasticsearch SQL, `values` in ES|QL or with columns, `datarows` in
/// OpenSearch. A partial table is a failure. `length` returns the number of rows in the `values` at a cursor, and moves
/// behind them. Fails without a list.
fn rows(body: &[u8], length: fn(&mut Cursor<'_>) -> Result<u64, Unexpected>) -> Result<Verdict, Unexpected> {
    let (mut count, mut partial) = (None, false);
    Cursor::new(body).object(|name, cursor| {
        match name {
            b"rows" | b"datarows" => count = Some(elements(cursor)?),
            b"values" => count = Some(length(cursor)?),
            b"is_partial" => partial = cursor.boolean()?,
            _ => cursor.skip()?,
        }
        Ok(true)
    })?;
    let count = count.ok_or(Unexpected)?;
    Ok(Verdict { hits: count, ..Verdict::new(count, whole(partial, false)) })
}

/// Judges `{"is_partial": false, "timed_out": false, "hits": {"events": [...]}}`, or `sequences` instead of `events`,
/// and counts them. An answer without a list has none. A partial or timed-out answer is a failure. Fails if the answer
/// has another form.
fn events(body: &[u8]) -> Result<Verdict, Unexpected> {
    let (mut count, mut partial, mut timed_out) = (None, false, false);
    Cursor::new(body).object(|name, cursor| {
        match name {
            b"is_partial" => partial = cursor.boolean()?,
            b"timed_out" => timed_out = cursor.boolean()?,
            b"hits" => cursor.object(|name, cursor| {
                match name {
                    b"events" | b"sequences" => count = Some(elements(cursor)?),
                    _ => cursor.skip()?,
                }
                Ok(true)
            })?,
            _ => cursor.skip()?,
        }
        Ok(true)
    })?;
    // An answer without hits has neither list.
    let count = count.unwrap_or(0);
    Ok(Verdict { hits: count, ..Verdict::new(count, whole(partial, timed_out)) })
}

/// Returns a failure if the answer is partial (class `Server`) or timed out (class `Timeout`, also if it is partial).
fn whole(partial: bool, timed_out: bool) -> Result<(), Failure> {
    if timed_out {
        return failure(ErrorClass::Timeout, "the store ran out of time: \"timed_out\" is true".to_owned());
    }
    if partial {
        return failure(ErrorClass::Server, "the answer is not complete: \"is_partial\" is true".to_owned());
    }
    Ok(())
}

/// Returns the number of elements of the array at the cursor, and moves behind it. Fails without an array.
fn elements(cursor: &mut Cursor<'_>) -> Result<u64, Unexpected> {
    let mut count = 0;
    cursor.array(|_, cursor| {
        count += 1;
        cursor.skip().map(|()| true)
    })?;
    Ok(count)
}

/// Returns the number of elements of the first array in the array at the cursor, 0 without one, and moves behind the
/// outer array. Fails without an array.
fn length_of_first(cursor: &mut Cursor<'_>) -> Result<u64, Unexpected> {
    let mut count = 0;
    cursor.array(|place, cursor| {
        if place == 0 {
            count = elements(cursor)?;
        } else {
            cursor.skip()?;
        }
        Ok(true)
    })?;
    Ok(count)
}

/// Judges the answer to a snapshot request: a success is `{"snapshot": {"state": "SUCCESS", ...}}` or
/// `{"accepted": true}`, and another state is a failure of class `Server`. Returns `Unexpected` for any other answer.
fn snapshot(body: &[u8]) -> Result<Verdict, Unexpected> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| Unexpected)?;
    let outcome = match answer["snapshot"]["state"].as_str() {
        Some("SUCCESS") => Ok(()),
        Some(state) => failure(ErrorClass::Server, format!("the snapshot is {state}: {}", excerpt(body))),
        None if answer["accepted"] == true => Ok(()),
        None => return Err(Unexpected),
    };
    Ok(Verdict::new(0, outcome))
}

/// Error type if the object to create exists.
const EXISTS: &str = "resource_already_exists_exception";

/// Returns whether an answer is an error of type `kind`.
fn is_error(body: &[u8], kind: &str) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|answer| answer["error"]["type"] == kind)
}

/// Judges `{"shards_acknowledged": true, "indices": [{"name": "a", "blocked": true}]}`.
/// The outcome is a failure unless all shards have acknowledged. Fails if the answer does not say so.
fn blocked(body: &[u8]) -> Result<Verdict, Unexpected> {
    let complete = Cursor::member(body, b"shards_acknowledged")?.ok_or(Unexpected)?.boolean()?;
    let outcome = match complete {
        true => Ok(()),
        false => failure(ErrorClass::Server, format!("not all shards are closed to writes: {}", excerpt(body))),
    };
    Ok(Verdict::new(0, outcome))
}

/// Returns the store's error message in an answer, or an excerpt of the answer if it has none.
/// For a document that was not found, returns a fixed text.
fn reason(body: &[u8]) -> String {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return excerpt(body) };
    if answer["found"] == false || answer["result"] == "not_found" {
        return "the document does not exist".to_owned();
    }
    let candidates = [&answer["error"], &answer["_shards"]["failures"][0]["reason"]];
    candidates.into_iter().find(|error| !error.is_null()).map_or_else(|| excerpt(body), words)
}

/// Returns the text of an error such as `{"type": "parsing_exception", "reason": "Unknown key", ...}`, with the cause
/// if it differs. Other errors become JSON text.
fn words(error: &Value) -> String {
    let text = |value: &Value| match (value["type"].as_str(), value["reason"].as_str()) {
        (Some(kind), Some(reason)) => Some(format!("{kind}: {reason}")),
        (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
        (None, None) => None,
    };
    let cause = text(&error["caused_by"]).or_else(|| text(&error["root_cause"][0]));
    match (text(error), cause) {
        (Some(what), Some(cause)) if what != cause => format!("{what} ({cause})"),
        (Some(what), _) => what,
        (None, _) => error.as_str().map_or_else(|| error.to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests;
