//! Events of a source as a bulk request: each updates one field of its document, or makes the document.

use loadframe_engine::event::Batch;
use loadframe_engine::plan::PlanError;

use super::{AGAIN, Mapped, Mapping, OVERTAKEN, Taking};
use crate::http1::request::{Body, Line};
use crate::search::generations::{List, Names};
use crate::search::judge::Judge;
use crate::take_in::{TakeIn, chosen};

impl Mapping<'_> {
    /// Where the events go, once the request is there.
    pub(super) fn taking(&self, form: TakeIn) -> Result<Taking, PlanError> {
        let generations = match form.daily {
            None => None,
            Some(_) => Some((self.register.of(&form.collection), self.indices(&form.collection)?)),
        };
        Ok(Taking { form, generations })
    }

    /// The request for any batch, whose body is given later by [`body`].
    pub(super) fn take_in(&self, take_in: &TakeIn) -> Mapped {
        let line = Line::new("POST", self.variables()).segment(&take_in.collection)?;
        let line = self.dialect.bulk().iter().try_fold(line, |line, name| line.segment(name))?;
        Ok((line.finish(Body::Given), Judge::TakenIn))
    }
}

/// Writes the body of the request that carries the events at the places `only`, or all; says how many these are.
///
/// Events of one document stay in their order, in which the store carries them out. An event that is sent twice, or
/// overtaken by another client's for the same document, changes nothing: it only sets its own field.
pub fn body(take_in: &TakeIn, list: &List, batch: &Batch, only: Option<&[u32]>, body: &mut Vec<u8>) -> u64 {
    let mut names = Names::new(&take_in.collection, list);
    let mut events = 0;
    body.clear();
    for event in chosen(batch, only) {
        let mut push = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        push(&[b"{\"update\":{"]);
        if let Some(name) = take_in.instant(event).and_then(|instant| names.of(instant)) {
            push(&[b"\"_index\":\"", name, b"\","]);
        }
        push(&[b"\"_id\":\"", batch.id(event), b"\",\"", AGAIN.as_bytes(), b"\":", OVERTAKEN.as_bytes(), b"}}\n"]);
        push(&[b"{\"doc\":{\"", batch.kind(event).as_bytes(), b"\":", batch.line(event)]);
        push(&[b"},\"doc_as_upsert\":true}\n"]);
        events += 1;
    }
    events
}
