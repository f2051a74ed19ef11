//! Bulk requests: many documents, each after a line with its action.

use std::sync::Arc;

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::corpus::Corpus;
use memchr::memchr;
use serde_json::Value;

use super::documents::place;
use super::{AGAIN, Mapped, Mapping, OVERTAKEN, parameters};
use crate::crud;
use crate::crud::Action;
use crate::form::Form;
use crate::http1::request::{Batches, Body};
use crate::search::answer::Judge;
use crate::search::conflicts::Conflicts;
use loadframe_engine::util::json::Cursor;
use loadframe_engine::workload::json_pointer::Pointer;

/// The keys of a bulk request.
const KEYS: [&str; 14] = [
    "collection",
    "corpus",
    "size",
    "action",
    "id",
    "per",
    "conflicts",
    "conflict_probability",
    "on_conflict",
    "recency",
    "pipeline",
    "routing",
    "refresh",
    "parameters",
];

impl Mapping<'_> {
    /// Maps a bulk request: `{"collection": NAME, "corpus": NAME, "size": 100, "action": "index", ...}`. Refuses
    /// unknown keys, wrong types, and ids that do not fit the action or the corpus.
    pub(super) fn bulk(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &KEYS)?;
        let corpus = self.context.corpora.get(form.text("corpus")?)?;
        let action = match form.get("action") {
            Some(_) => Action::parse(form.text("action")?)?,
            None => Action::Index,
        };
        let ids = ids(&form, &corpus, action)?;
        let per = match form.get("per") {
            Some(_) => Some((field(&form, "per", &corpus)?, form.text("collection")?.to_owned())),
            None => None,
        };
        let batches = Documents { corpus, size: form.count("size")?, action, ids, per };
        let line = self.dialect.bulk().iter().try_fold(self.line("POST", &form)?, |line, name| line.segment(name))?;
        let judge = if action == Action::Delete { Judge::Deletions } else { Judge::Bulk };
        let line = match form.get("pipeline") {
            Some(pipeline) => line.parameter("pipeline", pipeline)?,
            None => line,
        };
        let line = parameters(place(line, &form)?, &form)?;
        Ok((line.finish(Body::Batches(Box::new(batches))), judge))
    }
}

/// Reads where the ids of documents come from: a field, the corpus's action lines, conflicts or the store. Refuses a
/// source that does not fit the action or the corpus.
fn ids(form: &Form, corpus: &Corpus, action: Action) -> Result<Ids, PlanError> {
    if form.get("conflicts").is_some() {
        let sequential = match form.text("conflicts")? {
            "sequential" => true,
            "random" => false,
            other => return Err(PlanError::new(unknown("kind of conflicts", other, ["sequential", "random"]))),
        };
        let again = match form.get("on_conflict").map(|_| form.text("on_conflict")).transpose()? {
            None | Some("index") => Action::Index,
            // An update may arrive before the first request with the document. Therefore it creates missing documents.
            Some("update") => Action::Upsert,
            Some(other) => return Err(PlanError::new(unknown("action", other, ["index", "update"]))),
        };
        if action != Action::Index || form.get("id").is_some() {
            return Err(PlanError::new("\"conflicts\" make the ids of documents that are indexed"));
        }
        crud::refuse_action_ids(corpus, "\"conflicts\" make other ids")?;
        let documents = corpus.documents();
        let probability = share(form, "conflict_probability", 0.25)?;
        let recency = share(form, "recency", 0.0)?;
        return Ok(Ids::Conflicts(Conflicts { sequential, probability, recency, documents }, again));
    }
    let Some(_) = form.get("id") else {
        return match action {
            Action::Index | Action::Create if corpus.has_actions() => actions(form, corpus),
            Action::Index | Action::Create => Ok(Ids::None),
            _ => Err(PlanError::new("\"id\" is missing: the name of the field that holds the documents' ids")),
        };
    };
    Ok(Ids::Field(field(form, "id", corpus)?))
}

/// Returns the corpus's action lines as the source of ids. Refuses a corpus whose first action line is unreadable or,
/// without `per`, names another index.
fn actions(form: &Form, corpus: &Corpus) -> Result<Ids, PlanError> {
    let collection = form.text("collection")?;
    let action = crud::first_action(corpus)?;
    let meta = action.as_ref().and_then(|action| action.values().next());
    match meta.and_then(|meta| meta.get("_index")) {
        Some(index) if index != collection && form.get("per").is_none() => Err(PlanError::new(format!(
            "the corpus's action lines write to the index {index}, not to the collection \"{collection}\"; name that \
             collection, or remove \"_index\" from the lines"
        ))),
        _ => Ok(Ids::Actions(serde_json::to_vec(collection).unwrap_or_default())),
    }
}

/// Returns the location of the field that `key` names. Fails if the corpus's first document lacks it, or has another
/// value than a non-empty text or number there.
fn field(form: &Form, key: &str, corpus: &Corpus) -> Result<Pointer, PlanError> {
    let name = form.text(key)?;
    let pointer = Pointer::parse(&format!("/{}", name.replace('.', "/")))?;
    let mut first = Vec::new();
    corpus.append(0, 1, b"", &mut first);
    match scalar(&pointer, &first) {
        Some(_) => Ok(pointer),
        None => Err(PlanError::new(format!("\"{key}\": the corpus's first document lacks a text or number {name:?}"))),
    }
}

/// Reads the number from 0 to 1 at `key`, or returns `default` if it is missing. Refuses other values.
fn share(form: &Form, key: &str, default: f64) -> Result<f64, PlanError> {
    let Some(value) = form.get(key) else { return Ok(default) };
    let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| PlanError::new(format!("\"{key}\" wants a number from 0 to 1, not {value}")))
}

/// Documents of a corpus in batches. Request k has documents `k size` to `(k + 1) size`; the corpus repeats at its end.
#[derive(Debug)]
struct Documents {
    corpus: Arc<Corpus>,
    /// Largest number of documents per request.
    size: u64,
    action: Action,
    ids: Ids,
    /// For one collection per value of a field: the field, and the prefix of the collections' names.
    per: Option<(Pointer, String)>,
}

/// Source of document ids.
#[derive(Debug)]
enum Ids {
    /// The store generates them.
    None,
    /// A field of the document.
    Field(Pointer),
    /// The corpus's action lines. Holds the collection's name as JSON, which is omitted from the lines.
    Actions(Vec<u8>),
    /// Generated ids with conflicts. The action applies to documents with a repeated id.
    Conflicts(Conflicts, Action),
}

/// Returns the offset behind the first action line and its document in a body; a deletion has no document.
fn end_of_first(body: &[u8]) -> usize {
    let line = |from: usize| memchr(b'\n', &body[from..]).map_or(body.len(), |length| from + length + 1);
    // A deletion has an action line only.
    let action = line(0);
    if body.starts_with(b"{\"delete\"") { action } else { line(action) }
}

impl Batches for Documents {
    /// Keeps only the documents at the positions `places` of a `body` from `append`, with their action lines.
    /// `places` must be ascending. Returns the number of documents kept.
    fn keep(&self, body: &mut Vec<u8>, places: &[u32]) -> u64 {
        let (mut kept, mut from, mut place, mut documents) = (0, 0, 0, 0);
        let mut wanted = places.iter().copied().peekable();
        while from < body.len() && wanted.peek().is_some() {
            let end = from + end_of_first(&body[from..]);
            if wanted.next_if_eq(&place).is_some() {
                body.copy_within(from..end, kept);
                kept += end - from;
                documents += 1;
            }
            from = end;
            place += 1;
        }
        body.truncate(kept);
        documents
    }

    /// Returns the number of requests that send each document once.
    fn requests(&self) -> u64 {
        self.corpus.documents().div_ceil(self.size)
    }

    /// Appends the action lines and documents of request number `draw.k` to `body`. Returns the number of documents.
    /// `scratch` is an empty buffer.
    fn append(&self, draw: &Draw, scratch: &mut Vec<u8>, body: &mut Vec<u8>) -> u64 {
        let first = draw.k % self.requests().max(1) * self.size;
        if matches!(self.ids, Ids::None) && self.per.is_none() {
            let prefix: &[u8] = if self.action == Action::Create { b"{\"create\":{}}\n" } else { b"{\"index\":{}}\n" };
            return self.corpus.append(first, self.size, prefix, body);
        }
        let documents = self.corpus.append(first, self.size, b"", scratch);
        let end = scratch.len();
        if matches!(self.ids, Ids::Actions(_)) {
            self.corpus.append_actions(first, self.size, scratch);
        }
        let (mut rest, mut actions) = scratch.split_at(end);
        for number in first..first + documents {
            let document = take_line(&mut rest);
            let per =
                self.per.as_ref().map(|(pointer, name)| (name.as_str(), scalar(pointer, document).unwrap_or(b"none")));
            let action = match &self.ids {
                Ids::Conflicts(conflicts, again) => {
                    let (id, sent_before) = conflicts.id(draw, number);
                    let action = if sent_before { *again } else { self.action };
                    push_action(body, action, per, Some(&digits(id)));
                    action
                }
                Ids::Field(pointer) => {
                    push_action(body, self.action, per, scalar(pointer, document));
                    self.action
                }
                Ids::Actions(collection) => {
                    push_kept(body, self.action, per, take_line(&mut actions), collection);
                    self.action
                }
                Ids::None => {
                    push_action(body, self.action, per, None);
                    self.action
                }
            };
            push_document(body, action, document);
        }
        documents
    }
}

/// Removes the first line from `rest`; returns it without its line end.
fn take_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (line, behind) = rest.split_at(memchr(b'\n', rest).unwrap_or(rest.len()));
    *rest = behind.get(1..).unwrap_or_default();
    line
}

/// Returns the text without its quotes, still escaped, or the number, at `pointer` in a JSON document. `None` for an
/// empty text, another value and a missing one.
fn scalar<'a>(pointer: &Pointer, document: &'a [u8]) -> Option<&'a [u8]> {
    let value = pointer.find(document).ok().flatten()?;
    match value.first()? {
        b'"' => value.get(1..value.len() - 1).filter(|inside| !inside.is_empty()),
        b'-' | b'0'..=b'9' => Some(value),
        _ => None,
    }
}

/// Formats a generated id with ten digits, like Rally. Drops higher digits.
fn digits(mut id: u64) -> [u8; 10] {
    let mut digits = [b'0'; 10];
    for digit in digits.iter_mut().rev() {
        *digit += (id % 10) as u8;
        id /= 10;
    }
    digits
}

/// Appends an action line such as `{"index":{"_id":"7"}}`. Without an id, the store generates one or refuses the
/// document. With `per`, a name and a value, the line also has `"_index":"NAME-VALUE"`. Updates with an id have the
/// number of repetitions after a conflict. `id` and the value are JSON text without quotes.
fn push_action(body: &mut Vec<u8>, action: Action, per: Option<(&str, &[u8])>, id: Option<&[u8]>) {
    let name: &[u8] = match action {
        Action::Index => b"{\"index\":{",
        Action::Create => b"{\"create\":{",
        Action::Update | Action::Upsert => b"{\"update\":{",
        Action::Delete => b"{\"delete\":{",
    };
    body.extend_from_slice(name);
    if let Some((name, value)) = per {
        let end: &[u8] = if id.is_some() { b"\"," } else { b"\"" };
        [b"\"_index\":\"", name.as_bytes(), b"-", value, end].into_iter().for_each(|part| body.extend_from_slice(part));
    }
    if let Some(id) = id {
        body.extend_from_slice(b"\"_id\":\"");
        body.extend_from_slice(id);
        body.push(b'"');
        if matches!(action, Action::Update | Action::Upsert) {
            [b",\"", AGAIN.as_bytes(), b"\":", OVERTAKEN.as_bytes()]
                .into_iter()
                .for_each(|part| body.extend_from_slice(part));
        }
    }
    body.extend_from_slice(b"}}\n");
}

/// Appends an action line of the corpus, for a request to `collection` (JSON). Keeps metadata such as `_id` and
/// `routing`. Omits the type and the name of `collection`. With `per`, sets the index as in `push_action`. The action
/// is `create` if the line or `action` says so. Appends an invalid line unchanged, so that the store refuses it.
fn push_kept(body: &mut Vec<u8>, action: Action, per: Option<(&str, &[u8])>, line: &[u8], collection: &[u8]) {
    let start = body.len();
    let mut push = |name: &[u8], meta: &mut Cursor<'_>| {
        let create = action == Action::Create || name == b"create";
        body.extend_from_slice(if create { b"{\"create\":{" } else { b"{\"index\":{" });
        let mut comma = false;
        if let Some((name, value)) = per {
            [b"\"_index\":\"", name.as_bytes(), b"-", value, b"\""]
                .into_iter()
                .for_each(|part| body.extend_from_slice(part));
            comma = true;
        }
        meta.object(|name, meta| {
            let value = meta.value()?;
            let dropped = name == b"_type" || name == b"_index" && (per.is_some() || value == collection);
            if !dropped {
                let comma_before: &[u8] = if comma { b",\"" } else { b"\"" };
                [comma_before, name, b"\":", value].into_iter().for_each(|part| body.extend_from_slice(part));
                comma = true;
            }
            Ok(true)
        })?;
        body.extend_from_slice(b"}}\n");
        Ok(false)
    };
    if Cursor::new(line).object(&mut push).is_err() {
        body.truncate(start);
        body.extend_from_slice(line);
        body.push(b'\n');
    }
}

/// Appends the line of a JSON document in the form of its action; nothing for a deletion.
fn push_document(body: &mut Vec<u8>, action: Action, document: &[u8]) {
    let (before, behind): (&[u8], &[u8]) = match action {
        Action::Index | Action::Create => (b"", b"\n"),
        Action::Update => (b"{\"doc\":", b"}\n"),
        Action::Upsert => (b"{\"doc\":", b",\"doc_as_upsert\":true}\n"),
        Action::Delete => return,
    };
    body.extend_from_slice(before);
    body.extend_from_slice(document);
    body.extend_from_slice(behind);
}
