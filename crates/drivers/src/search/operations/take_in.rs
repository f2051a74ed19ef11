//! Events of a source as a bulk request: each updates one field of its document, or makes the document.

use loadframe_engine::event::Batch;

use super::{AGAIN, Mapped, Mapping, OVERTAKEN};
use crate::http1::request::{Body, Line};
use crate::search::judge::Judge;
use crate::take_in::{Days, TakeIn, chosen};

impl Mapping<'_> {
    /// The request for any batch, whose body is given later by [`body`].
    pub(super) fn take_in(&self, take_in: &TakeIn) -> Mapped {
        let line = Line::new("POST", self.variables()).segment(&take_in.collection)?;
        let line = self.dialect.bulk().iter().try_fold(line, |line, name| line.segment(name))?;
        Ok((line.finish(Body::Given), Judge::Bulk))
    }
}

/// Writes the body of the request that carries the events at the places `only`, or all; says how many these are.
///
/// Events of one document stay in their order, in which the store carries them out. An event that is sent twice, or
/// overtaken by another client's for the same document, changes nothing: it only sets its own field.
pub fn body(take_in: &TakeIn, batch: &Batch, only: Option<&[u32]>, body: &mut Vec<u8>) -> u64 {
    let mut days = Days::default();
    let mut events = 0;
    body.clear();
    for event in chosen(batch, only) {
        let mut push = |pieces: &[&[u8]]| pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        push(&[b"{\"update\":{"]);
        if let Some(instant) = take_in.instant(event) {
            push(&[b"\"_index\":\"", take_in.collection.as_bytes(), b"-", days.of(instant).as_bytes(), b"\","]);
        }
        push(&[b"\"_id\":\"", batch.id(event), b"\",\"", AGAIN.as_bytes(), b"\":", OVERTAKEN.as_bytes(), b"}}\n"]);
        push(&[b"{\"doc\":{\"", batch.kind(event).as_bytes(), b"\":", batch.line(event)]);
        push(&[b"},\"doc_as_upsert\":true}\n"]);
        events += 1;
    }
    events
}
