//! Checks the sources of a plan, and the streams that ingest their events.

use std::collections::HashSet;

use super::*;

/// Part of an ingesting operation in addition to the driver's own: each event, from its arrival until the
/// store has it.
pub(super) const EVENT: &str = "event";

/// Further parts with visibility probes: an event, from its arrival until a query finds it, and a query for
/// events.
pub(super) const LOOKED_FOR: [&str; 2] = ["visible", "look"];

/// Returns the settings of an operation's visibility probes; `None` without probes, always for an operation that does
/// not ingest. Refuses `sample` for such an operation, missing `sample` for others, and probes that the driver lacks.
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
pub(super) fn has_source(stream: &Stream) -> bool {
    matches!(stream.pacing, Pacing::Source { .. })
}

/// Refuses an ingesting operation in a stream without a source, and another operation in a stream with one.
pub(super) fn suits(stream: &Stream, ingests: bool) -> Result<(), PlanError> {
    match (has_source(stream), ingests) {
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

/// Returns the index in the stream's mix of the operation of each kind of event, in the order of the kinds' names.
/// Empty without routes. Refuses routes that do not name each kind once, and operations that are not in the mix.
pub(super) fn routes(plan: &Plan, stream: &Stream) -> Result<Vec<usize>, PlanError> {
    let Pacing::Source { source, routes, .. } = &stream.pacing else { return Ok(Vec::new()) };
    let kinds = plan.sources.get(source).map(|source| source.events.kinds.keys().collect::<Vec<_>>());
    if !routes.is_empty() && kinds.is_some_and(|kinds| routes.keys().collect::<Vec<_>>() != kinds) {
        return Err(PlanError::new("its routes must name each kind of event of its source once"));
    }
    let unknown = || PlanError::new("a route names an operation that is not in its mix");
    let place = |name: &String| stream.mix.iter().position(|(other, _)| other == name).ok_or_else(unknown);
    routes.values().map(place).collect()
}

/// Checks and returns the source of each stream; `None` for a stream without one. Refuses a source of two streams, and
/// settings that a stream with a source does not support.
pub(super) fn of<'a>(plan: &'a Plan) -> Result<Vec<Option<Arc<Source>>>, PlanError> {
    let mut used = HashSet::new();
    let mut of_stream = |stream: &'a Stream| {
        let Pacing::Source { source: name, workers, routes } = &stream.pacing else { return Ok(None) };
        let fail = |cause: String| Err(PlanError::new(cause).within(format!("stream {:?}", stream.name)));
        let Some(source) = plan.sources.get(name) else {
            return fail(crate::util::suggestions::unknown("source", name, plan.sources.keys().map(String::as_str)));
        };
        if !used.insert(name) {
            return fail(format!("another stream also uses the source {name:?}: give each stream its own source"));
        }
        if stream.mix.len() != 1 && routes.is_empty() {
            return fail("a stream with a source needs exactly one operation, or routes".into());
        }
        // Workers are shared out among the threads of all ranks in turn. Nothing would take the events that a rank
        // without a worker reads.
        let least = (plan.ranks - 1) * plan.threads + 1;
        if *workers < least {
            return fail(format!(
                "{workers} workers are too few for {} ranks with {} threads: give {least}, so that every rank has one",
                plan.ranks, plan.threads
            ));
        }
        if matches!(stream.stop, Stop::Requests(_) | Stop::Journeys(_)) {
            return fail(
                "a stream with a source needs a duration, or until: exhausted, or must end with the phase".into(),
            );
        }
        let samplings = stream.mix.iter().map(|(operation, _)| plan.sampling(operation));
        let samplings = samplings.collect::<Result<Vec<_>, _>>()?;
        if samplings.iter().any(|sampling| *sampling != samplings[0]) {
            return fail("all of its operations must have the same visibility probes".into());
        }
        Source::new(name, source, plan, samplings[0]).map(|source| Some(Arc::new(source)))
    };
    plan.streams.iter().map(&mut of_stream).collect()
}
