//! Checks the sources of a plan, and the streams that ingest their events.

use std::collections::HashSet;

use super::*;

/// Part of an ingesting operation in addition to the driver's own: each event, from its arrival until the
/// store has it.
pub(super) const EVENT: &str = "event";

/// Further parts with visibility probes: an event, from its arrival until a query finds it, and a query for
/// events.
pub(super) const LOOKED_FOR: [&str; 2] = ["visible", "look"];

/// Returns the settings of an operation's visibility probes, if any.
pub(super) fn sampling<D: Driver>(
    plan: &Plan,
    name: &str,
    driver: &D,
    operation: &D::Operation,
) -> Result<Option<Sampling>, PlanError> {
    if !driver.ingests(operation) {
        return match plan.visible.get(name) {
            Some(Visible { sample: Some(_), .. }) => {
                Err(PlanError::new("visible: \"sample\" is for operations that ingest events: remove it"))
            }
            _ => Ok(None),
        };
    }
    let sampling = plan.sampling(name)?;
    if sampling.is_some() {
        driver.looks_for(operation)?;
    }
    Ok(sampling)
}

/// Returns whether a stream's requests come from a source.
pub(super) fn has(stream: &Stream) -> bool {
    matches!(stream.pacing, Pacing::Source { .. })
}

/// Checks that an operation matches its stream: ingesting operations need a source, and others must not have
/// one.
pub(super) fn suits(stream: &Stream, ingests: bool) -> Result<(), PlanError> {
    match (has(stream), ingests) {
        (true, false) => Err(PlanError::new(format!(
            "it does not ingest events, but the stream {:?} has a source: use an ingesting operation",
            stream.name
        ))),
        (false, true) => {
            Err(PlanError::new(format!("it ingests events, but the stream {:?} lacks a source: add one", stream.name)))
        }
        _ => Ok(()),
    }
}

/// Returns the source of each stream that has one.
pub(super) fn of<'a>(plan: &'a Plan) -> Result<Vec<Option<Arc<Source>>>, PlanError> {
    let mut used = HashSet::new();
    let mut of_stream = |stream: &'a Stream| {
        let Pacing::Source { source: name, workers } = &stream.pacing else { return Ok(None) };
        let fail = |cause: String| Err(PlanError::new(cause).within(format!("stream {:?}", stream.name)));
        let Some(source) = plan.sources.get(name) else {
            return fail(crate::util::suggestions::unknown("source", name, plan.sources.keys().map(String::as_str)));
        };
        if !used.insert(name) {
            return fail(format!("another stream also uses the source {name:?}: give each stream its own source"));
        }
        if stream.mix.len() != 1 {
            return fail("a stream with a source needs exactly one operation".into());
        }
        if *workers < plan.ranks {
            return fail(format!("{workers} workers are too few for {} ranks: give each at least one", plan.ranks));
        }
        if matches!(stream.stop, Stop::Requests(_) | Stop::Journeys(_)) {
            return fail(
                "a stream with a source needs a duration, or until: exhausted, or must end with the phase".into(),
            );
        }
        let (operation, _) = &stream.mix[0];
        Source::new(name, source, plan, plan.sampling(operation)?).map(|source| Some(Arc::new(source)))
    };
    plan.streams.iter().map(&mut of_stream).collect()
}
