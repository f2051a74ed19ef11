//! Whether an answer is a success. A 200 may carry item errors, a timed-out shard or too few hits; those count.
//!
//! A few fields, which are located without parsing the rest, show a success; only an error is parsed for its reason.

mod items;

use loadframe_engine::driver::{ErrorClass, Failure, Recall};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;

use crate::assertion::Assertion;
use crate::excerpt::excerpt;
use crate::http1::status::class_of;
use crate::search::answer::items::{bulk, deletions, documents};
use loadframe_engine::util::json::{Cursor, Unexpected};
use loadframe_engine::workload::json_pointer::Pointer;

/// What an answer is expected to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Anything, as long as its status says success.
    Status {
        /// What a success counts for.
        documents: u64,
    },
    /// Anything, as long as its status says success, or that the thing to be removed does not exist.
    Absent,
    /// Anything, as long as its status says success, or that the thing to be made exists.
    Present,
    /// Anything with such a status that reports no error inside: see `unfailed`.
    Unfailed,
    /// An object that may have `_shards`, none of which failed.
    Shards {
        /// What a success counts for.
        documents: u64,
    },
    /// A document.
    Document,
    /// Documents by their ids, as far as they are there.
    Documents,
    /// Hits, from all shards, in time.
    Search,
    /// An answer to each of several searches, all of them good. Its hits are those of the search with the fewest.
    Searches,
    /// Aggregations from all shards, in time. Its documents and its hits are their buckets.
    Aggregation,
    /// A number of documents, which are its hits, though none is returned.
    Count,
    /// A table, whose rows are its documents and its hits.
    Rows,
    /// Events, or sequences of events, which are its documents and its hits.
    Events,
    /// A snapshot that is complete, or one that was accepted and is not waited for.
    Snapshot,
    /// One item for each document, none with an error.
    Bulk,
    /// The same, of deletions: a document that is not there is an error.
    Deletions,
    /// The same, of events: an index that takes no writes now takes them later.
    TakenIn,
    /// An index that takes no more writes, and has none under way.
    Blocked,
    /// The same as `Bulk`, of a request that always carries as many. It is sent again as a whole or not at all.
    Items {
        /// How many.
        documents: u64,
    },
}

/// A judgement: how many documents the store took or returned, and what was wrong.
#[derive(Debug)]
pub struct Verdict {
    /// Counts also when some others failed.
    pub documents: u64,
    /// Why it is not a success.
    pub outcome: Result<(), Failure>,
    /// How many hits a search found if the answer says it, else how many it returned.
    pub hits: u64,
    /// There are more hits than the store counted.
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

    /// Adds what the workload asserts to the judgement of an answer to `judge`.
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
    /// An answer that is good by its status.
    pub const DONE: Self = Self::Status { documents: 0 };
    /// One that also reports on shards, none of which may have failed, or on a wait, which must not have timed out.
    pub const ON_SHARDS: Self = Self::Shards { documents: 0 };

    /// Whether its answers have hits, or something like them, that can be counted.
    pub fn counts(self) -> bool {
        matches!(self, Self::Search | Self::Searches | Self::Aggregation | Self::Count | Self::Rows | Self::Events)
    }

    /// Whether more than the status of a success is looked at.
    pub fn reads_body(self) -> bool {
        !matches!(self, Self::Status { .. } | Self::Document | Self::Absent | Self::Present)
    }

    /// Judges what the workload asserts of fields.
    pub fn fields(self, assertion: &Assertion, values: &Values, body: &[u8]) -> Result<(), Failure> {
        if !assertion.has_fields() {
            return Ok(());
        }
        assertion.judge_json(values, self.source(body), body)
    }

    /// Judges an answer to a request that carried `sent` documents.
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
            // What is not JSON, such as a table for people, reports nothing.
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
                Ok(Verdict { hits, ..Verdict::new(0, shards.outcome(body)) })
            }),
            Self::Rows => rows(body),
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

    /// The document that was read, or the first that was found.
    fn source(self, body: &[u8]) -> Option<&[u8]> {
        let pointer = if self == Self::Search { "/hits/hits/0/_source" } else { "/_source" };
        Pointer::parse(pointer).ok()?.find(body).ok().flatten()
    }
}

/// The ids of the first hits, in their order.
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

fn failure(class: ErrorClass, message: String) -> Result<(), Failure> {
    Err(Failure::new(class, message))
}

/// The fields of an answer that are common to all operations on shards.
#[derive(Default)]
struct Shards {
    timed_out: bool,
    failed: u64,
    /// Hits found, as far as the store counted.
    total: Option<u64>,
    /// There are more than it counted.
    cut_off: bool,
    /// Hits returned.
    hits: Option<u64>,
}

impl Shards {
    fn read(body: &[u8]) -> Result<Self, Unexpected> {
        let mut shards = Self::default();
        Cursor::new(body).object(|name, cursor| {
            match name {
                b"timed_out" => shards.timed_out = cursor.boolean()?,
                b"_shards" => cursor.object(|name, cursor| {
                    match name {
                        b"failed" => shards.failed = cursor.whole()?,
                        _ => cursor.skip()?,
                    }
                    Ok(true)
                })?,
                b"hits" => shards.read_hits(cursor)?,
                _ => cursor.skip()?,
            }
            Ok(true)
        })?;
        Ok(shards)
    }

    fn read_hits(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Unexpected> {
        cursor.object(|name, cursor| {
            match name {
                b"hits" => self.hits = Some(cursor.objects_in_array()?),
                b"total" if cursor.at_object()? => cursor.object(|name, cursor| {
                    match name {
                        b"value" => self.total = Some(cursor.whole()?),
                        b"relation" => self.cut_off = *cursor.string()? == *b"gte",
                        _ => cursor.skip()?,
                    }
                    Ok(true)
                })?,
                // Elasticsearch 6 says -1 if it was not asked to count.
                b"total" => self.total = std::str::from_utf8(cursor.value()?).ok().and_then(|total| total.parse().ok()),
                _ => cursor.skip()?,
            }
            Ok(true)
        })
    }

    fn outcome(&self, body: &[u8]) -> Result<(), Failure> {
        if self.timed_out {
            failure(ErrorClass::Timeout, "the store ran out of time: \"timed_out\" is true".to_owned())
        } else if self.failed > 0 {
            failure(ErrorClass::Server, format!("{} shards failed: {}", self.failed, reason(body)))
        } else {
            Ok(())
        }
    }

    fn search(&self, body: &[u8]) -> Result<Verdict, Unexpected> {
        let documents = self.hits.ok_or(Unexpected)?;
        let verdict = Verdict::new(documents, self.outcome(body));
        Ok(Verdict { hits: self.total.unwrap_or(documents), cut_off: self.cut_off, ..verdict })
    }
}

/// Judges an answer of any kind by the fields that report failures: `timed_out`, `_shards`, `errors` with `items`,
/// `failures`, and the same or `error` inside of `responses`. `whole`: it is not one of these itself, of which none has more.
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
                // A list that cannot be read, such as one nested too deep, is not an empty one.
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

/// The error of the first item of `{"errors": true, "items": [{"index": {"error": {...}}}]}`, in words.
fn first_error(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let items = answer["items"].as_array().into_iter().flatten();
    let mut errors = items.filter_map(|item| item.as_object()?.values().next()?.get("error"));
    errors.next().map_or_else(|| "\"errors\" is true".to_owned(), words)
}

/// The answer to several searches is `{"responses": [...]}`, with `error` instead of hits where one failed.
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
    let outcome = match first {
        None => Ok(()),
        Some(Failure { message, .. }) => {
            let message = format!("{failed} of {total} searches failed, the first with {message}");
            failure(ErrorClass::Item, message)
        }
    };
    Ok(Verdict { hits, ..Verdict::new(documents, outcome) })
}

/// Counts the buckets of the outermost aggregations; those with names for keys are members of an object.
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
    Ok(Verdict { hits: buckets, ..Verdict::new(buckets, shards.outcome(body)) })
}

/// Elasticsearch's SQL calls them `rows`, its ES|QL `values`, and OpenSearch `datarows`.
fn rows(body: &[u8]) -> Result<Verdict, Unexpected> {
    let (mut count, mut partial) = (None, false);
    Cursor::new(body).object(|name, cursor| {
        match name {
            b"rows" | b"values" | b"datarows" => count = Some(elements(cursor)?),
            b"is_partial" => partial = cursor.boolean()?,
            _ => cursor.skip()?,
        }
        Ok(true)
    })?;
    let count = count.ok_or(Unexpected)?;
    Ok(Verdict { hits: count, ..Verdict::new(count, whole(partial, false)) })
}

/// `{"is_partial": false, "timed_out": false, "hits": {"events": [...]}}`, or `sequences` in their place.
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

/// Whether the answer to a query is all that it could be.
fn whole(partial: bool, timed_out: bool) -> Result<(), Failure> {
    if timed_out {
        return failure(ErrorClass::Timeout, "the store ran out of time: \"timed_out\" is true".to_owned());
    }
    if partial {
        return failure(ErrorClass::Server, "the answer is not complete: \"is_partial\" is true".to_owned());
    }
    Ok(())
}

/// How many elements the array that is here has; passes over it.
fn elements(cursor: &mut Cursor<'_>) -> Result<u64, Unexpected> {
    let mut count = 0;
    cursor.array(|_, cursor| {
        count += 1;
        cursor.skip().map(|()| true)
    })?;
    Ok(count)
}

/// `{"snapshot": {"state": "SUCCESS", ...}}`, or `{"accepted": true}`.
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

/// What a store says when what is to be made is there.
const EXISTS: &str = "resource_already_exists_exception";

fn is_error(body: &[u8], kind: &str) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|answer| answer["error"]["type"] == kind)
}

/// `{"shards_acknowledged": true, "indices": [{"name": "a", "blocked": true}]}`
fn blocked(body: &[u8]) -> Result<Verdict, Unexpected> {
    let complete = Cursor::member(body, b"shards_acknowledged")?.ok_or(Unexpected)?.boolean()?;
    let outcome = match complete {
        true => Ok(()),
        false => failure(ErrorClass::Server, format!("not all shards are closed to writes: {}", excerpt(body))),
    };
    Ok(Verdict::new(0, outcome))
}

/// What an answer's body says is wrong, in the store's own words.
fn reason(body: &[u8]) -> String {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return excerpt(body) };
    if answer["found"] == false || answer["result"] == "not_found" {
        return "there is no such document".to_owned();
    }
    let candidates = [&answer["error"], &answer["_shards"]["failures"][0]["reason"]];
    candidates.into_iter().find(|error| !error.is_null()).map_or_else(|| excerpt(body), words)
}

/// `{"type": "parsing_exception", "reason": "Unknown key", ...}` in words, with the cause if that says more.
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
