//! Events of a source as a bulk request: each updates one field of its document, or makes the document.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::event::Batch;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{AGAIN, Mapped, Mapping, OVERTAKEN, Taking};
use crate::daily::generations::{Generations, List, Names, Style};
use crate::http1::request::{Body, RequestHead};
use crate::ingest::{Ingest, chosen};
use crate::search::answer::Judge;
use crate::search::request::SearchStep;

impl Mapping<'_> {
    /// Where the events go, once the request is there.
    pub(super) fn taking(&self, form: Ingest) -> Result<Taking, PlanError> {
        let generations = match form.daily {
            None => None,
            Some(_) => Some((self.generations(&form.collection), self.indices(&form.collection)?)),
        };
        let look = self.look(&form.collection)?;
        Ok(Taking { form, generations, look })
    }

    /// Those of a collection, which all operations on it share.
    pub(super) fn generations(&self, collection: &str) -> Arc<Generations> {
        self.register.of(collection, || Generations::new(collection, Style::Dotted))
    }

    /// The request for any batch, whose body is given later by [`body`].
    pub(super) fn ingest(&self, ingest: &Ingest) -> Mapped {
        let line = RequestHead::new("POST", self.variables()).segment(&ingest.collection)?;
        let line = self.dialect.bulk().iter().try_fold(line, |line, name| line.segment(name))?;
        Ok((line.finish(Body::Given), Judge::TakenIn))
    }

    /// The request for the documents of events as searches see them, whose body is given later by [`look`].
    fn look(&self, collection: &str) -> Result<SearchStep, PlanError> {
        let line = RequestHead::new("POST", self.variables()).segment(collection)?.segment("_mget")?;
        // What is not refreshed yet is not there then, as in a search.
        let line = line.parameter("realtime", &false.into())?;
        Ok(SearchStep::new(line.finish(Body::Given), Judge::Documents))
    }
}

/// Writes the body of the request that carries the events at the places `only`, or all; says how many these are.
///
/// Events of one document stay in their order, in which the store carries them out. An event that is sent twice, or
/// overtaken by another client's for the same document, changes nothing: it only sets its own field.
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

/// Writes the body of a request for the documents of events, with the field of each event.
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

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    docs: Vec<Document<'a>>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(rename = "_source", borrow, default)]
    source: BTreeMap<Cow<'a, str>, IgnoredAny>,
}

/// Which events of a batch an answer to [`look`] shows, by their places: those whose kind is in their document.
pub fn seen(batch: &Batch, answer: &[u8]) -> Vec<bool> {
    let docs = serde_json::from_slice::<Answer<'_>>(answer).map_or_else(|_| Vec::new(), |answer| answer.docs);
    let is_seen = |(place, event)| {
        docs.get(place).is_some_and(|document: &Document| document.source.contains_key(batch.kind(event)))
    };
    batch.events.iter().enumerate().map(is_seen).collect()
}
