//! Checks the additional parts that a plan requests for an operation's executions.

use super::*;
use crate::client::first_executions::{FirstExecutions, Requests};

/// Returns the additional parts of the executions of operation `name`, with `place` 0.
/// `known`: requests shared with other streams that use the same operation; a new one is added. Refuses first
/// executions with several ranks, and data age of an operation without visibility probes.
pub(super) fn first_executions(
    plan: &Plan,
    name: &str,
    known: &mut BTreeMap<String, Arc<Requests>>,
    variables: &Variables,
) -> Result<FirstExecutions, PlanError> {
    if plan.first.contains(name) && plan.ranks > 1 {
        let cause = "first: ranks do not know each other's requests: record first executions with a single rank";
        return Err(PlanError::new(cause));
    }
    let requests = plan.first.contains(name).then(|| {
        let new = || Arc::new(Requests::new(variables.named_in(&plan.operations[name])));
        known.entry(name.to_owned()).or_insert_with(new).clone()
    });
    let shows = plan.shows.get(name).map(|shown| shows(plan, shown)).transpose()?;
    Ok(FirstExecutions { place: 0, requests, shows })
}

/// Returns the index in `plan.streams` of the first stream with a source that has operation `shown` in its mix: `shown`
/// ingests the events that another operation shows. Refuses it without such a stream, and without visibility probes.
fn shows(plan: &Plan, shown: &str) -> Result<usize, PlanError> {
    let of = |stream: &Stream| sources::has_source(stream) && stream.mix.iter().any(|(name, _)| name == shown);
    let looked_for = plan.visible.get(shown).is_some_and(|visible| visible.sample.is_some());
    let stream = plan.streams.iter().position(of).filter(|_| looked_for);
    stream.ok_or_else(|| PlanError::new(format!("shows: {shown:?} does not ingest events with visibility probes")))
}
