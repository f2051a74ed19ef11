//! Events of a source as a bulk request. Each event sets one field of its document, and creates missing documents.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::event::Batch;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{AGAIN, IngestTarget, Mapped, Mapping, OVERTAKEN};
use crate::daily::generations::{Generations, List, Names, Style};
use crate::http1::request::{Body, RequestHead};
use crate::ingest::{Ingest, chosen};
use crate::search::answer::Judge;
use crate::search::request::SearchStep;

impl Mapping<'_> {
    /// Returns the destination of the events of a form: its generations if there are daily indices, and its visibility
    /// query. Refuses unknown variables in the collection's name.
    pub(super) fn ingest_target(&self, form: Ingest) -> Result<IngestTarget, PlanError> {
        let generations = match form.daily {
            None => None,
            Some(_) => Some((self.generations(&form.collection), self.indices(&form.collection)?)),
        };
        let look = self.look(&form.collection)?;
        Ok(IngestTarget { form, generations, look })
    }

    /// Returns the generations of a collection. All operations on it share them.
    pub(super) fn generations(&self, collection: &str) -> Arc<Generations> {
        self.register.of(collection, || Generations::new(collection, Style::Dotted))
    }

    /// Maps the bulk request of a batch. [`body`] writes its body later. Refuses unknown variables in the collection's
    /// name.
    pub(super) fn ingest(&self, ingest: &Ingest) -> Mapped {
        let line = RequestHead::new("POST", self.variables()).segment(&ingest.collection)?;
        let line = self.dialect.bulk().iter().try_fold(line, |line, name| line.segment(name))?;
        Ok((line.finish(Body::Given), Judge::TakenIn))
    }

    /// Returns the query for ingested events, with the visibility of searches. [`look`] writes its body later. Refuses
    /// unknown variables in the collection's name.
    fn look(&self, collection: &str) -> Result<SearchStep, PlanError> {
        let line = RequestHead::new("POST", self.variables()).segment(collection)?.segment("_mget")?;
        // Like a search, this omits documents that are not refreshed yet.
        let line = line.parameter("realtime", &false.into())?;
        Ok(SearchStep::new(line.finish(Body::Given), Judge::Documents))
    }
}

/// Replaces `body` by the bulk request for the events at the indices `only`, or for all. Returns the number of events.
/// `list` has the generations, which decide each event's index. An event without a generation goes to the collection of
/// the request.
///
/// The store executes the events of one document in order. Repeated events and events of concurrent clients are
/// harmless, because each event sets only its own field.
pub fn body(ingest: &Ingest, list: &List, batch: &Batch, only: Option<&[u32]>, body: &mut Vec<u8>) -> u64 {
    let mut names = Names::new(&ingest.collection, Style::Dotted, list);
    let mut events = 0;
    body.clear();
    for event in chosen(batch, only) {
        let mut push = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        push(&[b"{\"update\":{"]);
        if let Some(name) = ingest.instant(event).and_then(|instant| names.of(instant)) {
            push(&[b"\"_index\":\"", name, b"\","]);
        }
        push(&[b"\"_id\":\"", batch.id(event), b"\",\"", AGAIN.as_bytes(), b"\":", OVERTAKEN.as_bytes(), b"}}\n"]);
        push(&[b"{\"doc\":{\"", batch.kind(event).as_bytes(), b"\":", batch.line(event)]);
        push(&[b"},\"doc_as_upsert\":true}\n"]);
        events += 1;
    }
    events
}

/// Replaces `body` by a request for the documents of all events of a batch, with the field of each event. `list` has
/// the generations, which decide each event's index.
pub fn look(ingest: &Ingest, list: &List, batch: &Batch, body: &mut Vec<u8>) {
    let mut names = Names::new(&ingest.collection, Style::Dotted, list);
    body.clear();
    body.extend_from_slice(b"{\"docs\":[");
    for (place, event) in batch.events.iter().enumerate() {
        let mut push = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        push(&[if place > 0 { b",{" } else { b"{" }]);
        if let Some(name) = ingest.instant(event).and_then(|instant| names.of(instant)) {
            push(&[b"\"_index\":\"", name, b"\","]);
        }
        push(&[b"\"_id\":\"", batch.id(event), b"\",\"_source\":[\"", batch.kind(event).as_bytes(), b"\"]}"]);
    }
    body.extend_from_slice(b"]}");
}

/// An answer to the visibility query.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    docs: Vec<Document<'a>>,
}

/// One document in it; the source is empty if the document is missing.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "_source", borrow, default)]
    source: BTreeMap<Cow<'a, str>, IgnoredAny>,
}

/// Returns for each event of a batch whether it is visible in an answer to [`look`].
/// It is visible if its document has a field of its kind. All are invisible in an answer of another form.
pub fn seen(batch: &Batch, answer: &[u8]) -> Vec<bool> {
    let docs = serde_json::from_slice::<Answer<'_>>(answer).map_or_else(|_| Vec::new(), |answer| answer.docs);
    let is_seen = |(place, event)| {
        docs.get(place).is_some_and(|document: &Document| document.source.contains_key(batch.kind(event)))
    };
    batch.events.iter().enumerate().map(is_seen).collect()
}
