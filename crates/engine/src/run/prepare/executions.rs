//! Checks what a plan tells apart of an operation's executions.

use super::*;
use crate::client::first_executions::{FirstExecutions, Requests};

/// What is told apart of the executions of an operation. `known`: the requests of operations that other streams have,
/// too.
pub(super) fn first_executions(
    plan: &Plan,
    name: &str,
    known: &mut BTreeMap<String, Arc<Requests>>,
    variables: &Variables,
) -> Result<FirstExecutions, PlanError> {
    if plan.first.contains(name) && plan.ranks > 1 {
        let cause =
            "first: of several generators none knows what the others have asked: tell first executions apart with one";
        return Err(PlanError::new(cause));
    }
    let requests = plan.first.contains(name).then(|| {
        let new = || Arc::new(Requests::new(variables.named_in(&plan.operations[name])));
        known.entry(name.to_owned()).or_insert_with(new).clone()
    });
    let shows = plan.shows.get(name).map(|shown| shows(plan, shown)).transpose()?;
    Ok(FirstExecutions { place: 0, requests, shows })
}

/// The stream whose events an answer shows.
fn shows(plan: &Plan, shown: &str) -> Result<usize, PlanError> {
    let of = |stream: &Stream| sources::has(stream) && stream.mix.iter().any(|(name, _)| name == shown);
    let looked_for = plan.visible.get(shown).is_some_and(|visible| visible.sample.is_some());
    let stream = plan.streams.iter().position(of).filter(|_| looked_for);
    stream.ok_or_else(|| PlanError::new(format!("shows: {shown:?} does not take in events here that are looked for")))
}
