//! Copies an index to one with fewer shards.

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Variables;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Value, json};

use super::{MappedSteps, Mapping};
use crate::form::Form;
use crate::http1::request::{Body, Request, RequestHead};
use crate::search::answer::Judge;
use crate::search::dialect::Dialect;
use crate::search::request::SearchStep;
use loadframe_engine::workload::json_pointer::Pointer;

/// Names of the steps.
pub const PARTS: [&str; 6] = ["choose", "gather", "gathered", "block", "shrink", "ready"];
/// The step that blocks writes.
pub const BLOCK: usize = 3;

/// Setting that blocks writes.
const NO_WRITES: &str = "index.blocks.write";
/// Setting that restricts an index to one node.
const ONLY_NODE: &str = "index.routing.allocation.require._name";

impl Mapping<'_> {
    /// Maps `{"from": NAME, "to": NAME, "settings": {...}}` to the steps of [`PARTS`]. Refuses unknown keys and wrong
    /// types.
    pub(super) fn shrink(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let form = Form::new(argument, &["from", "to", "settings"])?;
        let settings = form.get("settings").map(|_| form.mapping("settings")).transpose()?;
        let mut steps = steps(self.dialect, self.variables(), form.text("from")?, form.text("to")?, settings)?;
        let first = steps.remove(0);
        Ok(MappedSteps { then: steps, parts: &PARTS, ..MappedSteps::of(first) })
    }
}

/// Returns the requests of [`PARTS`], in order, that copy the index `from` to `to` with these settings. The store
/// requires a copy of every shard on one node and a write block. The first steps arrange both, and wait for pending
/// writes. The new index inherits neither setting. Refuses unknown variables.
pub fn steps(
    dialect: &Dialect,
    variables: &Variables,
    from: &str,
    to: &str,
    settings: Option<&Value>,
) -> Result<Vec<SearchStep>, PlanError> {
    let path = |method: &str, segments: &[&str]| {
        segments.iter().try_fold(RequestHead::new(method, variables), |line, segment| line.segment(segment))
    };
    let json = |value: &Value| Template::json(value, variables).map(Body::Json);
    // The primary comes first: a replica may be unassigned.
    let shards = path("GET", &["_cat", "shards", from])?.parameter("format", &"json".into())?;
    let shards = shards.parameter("h", &"node,prirep".into())?.parameter("s", &"prirep".into())?;
    let choose = SearchStep {
        keep: Some(Pointer::parse("/0/node")?),
        ..SearchStep::new(shards.finish(Body::None), Judge::DONE)
    };
    let (mut before, mut after) = (Template::default(), Template::default());
    before.push_literal(format!("{{\"{ONLY_NODE}\":"));
    after.push_literal("}");
    let gather = SearchStep::new(path("PUT", &[from, "_settings"])?.finish(Body::Around(before, after)), Judge::DONE);
    let gathered = SearchStep::new(at_rest(path("GET", &["_cluster", "health", from])?)?, Judge::ON_SHARDS);
    let block = if dialect.blocks() {
        SearchStep::new(path("PUT", &[from, "_block", "write"])?.finish(Body::None), Judge::Blocked)
    } else {
        SearchStep::new(path("PUT", &[from, "_settings"])?.finish(json(&json!({ NO_WRITES: true }))?), Judge::DONE)
    };
    let mut all = open();
    for (name, value) in settings.and_then(Value::as_object).into_iter().flatten() {
        all[name] = value.clone();
    }
    let shrink = path("POST", &[from, "_shrink", to])?.finish(json(&json!({ "settings": all }))?);
    Ok(vec![choose, gather, gathered, block, SearchStep::new(shrink, Judge::DONE), ready(variables, to)?])
}

/// Returns settings that remove the write block and the node restriction.
pub fn open() -> Value {
    json!({NO_WRITES: null, ONLY_NODE: null})
}

/// Returns the request that waits until an index has all primary shards and none moves or starts. Refuses unknown
/// variables.
pub fn ready(variables: &Variables, index: &str) -> Result<SearchStep, PlanError> {
    let line = RequestHead::new("GET", variables).path("/_cluster/health")?.segment(index)?;
    Ok(SearchStep::new(at_rest(line.parameter("wait_for_status", &"yellow".into())?)?, Judge::ON_SHARDS))
}

/// Completes a health request so that it waits until no shard moves or starts. Returns an error only for unknown
/// variables.
fn at_rest(line: RequestHead<'_>) -> Result<Request, PlanError> {
    let line = line.parameter("wait_for_no_relocating_shards", &true.into())?;
    Ok(line.parameter("wait_for_no_initializing_shards", &true.into())?.finish(Body::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_write_is_under_way_when_the_copy_is_made() {
        let judge = |version: &str| {
            let store =
                loadframe_engine::plan::Store { distribution: "elasticsearch".to_owned(), version: version.to_owned() };
            let dialect = Dialect::new(Some(&store)).unwrap();
            let steps = steps(&dialect, &Variables::default(), "a", "b", None).unwrap();
            assert_eq!((steps.len(), PARTS[BLOCK]), (PARTS.len(), "block"));
            steps[BLOCK].judge
        };
        assert_eq!(judge("7.17.0"), Judge::Blocked);
        assert_eq!(judge("6.8.23"), Judge::DONE, "it does not say when they are done");
    }
}
