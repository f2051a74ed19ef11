//! Maps the form of index management.

use loadframe_engine::plan::PlanError;
use serde_json::{Value, json};

use super::{MappedSteps, Mapping};
use crate::form::Form;
use crate::http1::request::{Body, Request, RequestHead};
use crate::search::answer::Judge;
use crate::search::index::SHRUNK;
use crate::search::index_management::{Conditions, Managing, PARTS, Shrink};
use crate::search::request::SearchStep;

/// Default delay of late events, in milliseconds. Clicks of the workload adbids arrive within an hour.
const LONGEST_DELAY: i64 = 3_600_000;

impl Mapping<'_> {
    /// Maps `{"collection": NAME, "times": [FIELD], "roll_over": {...}, "shrink": {...}, "keep": SECONDS}` to one round
    /// of index management. Parts that are not given are not done; a shrunk index has one shard by default. Refuses
    /// unknown keys and wrong types.
    pub(super) fn manage(&self, argument: &Value) -> Result<MappedSteps, PlanError> {
        let form = Form::new(argument, &["collection", "times", "roll_over", "shrink", "keep"])?;
        let collection = form.text("collection")?;
        let within = |key: &str, known: &[&str]| match form.get(key) {
            None => Ok(None),
            Some(value) => Form::new(value, known).map(Some).map_err(|error| error.within(key)),
        };
        let roll_over = match within("roll_over", &["documents", "size", "age"])? {
            None => None,
            Some(said) => Some(Conditions {
                documents: said.get("documents").map(|_| said.count("documents")).transpose()?,
                size: said.get("size").map(|_| said.count("size")).transpose()?,
                age: said.milliseconds("age")?,
            }),
        };
        let shrink = match within("shrink", &["after", "shards", "settings", "segments"])? {
            None => None,
            Some(said) => {
                let shards = said.get("shards").map_or(Ok(1), |_| said.count("shards"))?;
                let mut settings = said.get("settings").map_or(Ok(json!({})), |_| said.mapping("settings").cloned())?;
                settings["index.number_of_shards"] = shards.into();
                Some(Shrink {
                    after: said.milliseconds("after")?.unwrap_or(LONGEST_DELAY),
                    shards,
                    settings,
                    segments: said.get("segments").map(|_| said.count("segments")).transpose()?,
                })
            }
        };
        let managing = Managing {
            generations: self.generations(collection),
            dialect: self.dialect.clone(),
            indices: self.indices(collection)?,
            refresh: SearchStep::new(
                self.days("POST", collection)?.segment("_refresh")?.finish(Body::None),
                Judge::ON_SHARDS,
            ),
            newest: self.newest(collection, &form)?,
            roll_over,
            shrink,
            keep: form.milliseconds("keep")?,
        };
        let sizes =
            RequestHead::new("GET", self.variables()).path("/_cat/indices")?.segment(&everything(collection))?;
        let sizes = sizes.parameter("format", &"json".into())?.parameter("bytes", &"b".into())?;
        let sizes = sizes.parameter("h", &"index,docs.count,pri.store.size".into())?.finish(Body::None);
        Ok(MappedSteps {
            parts: &PARTS,
            managing: Some(Box::new(managing)),
            ..MappedSteps::of(SearchStep::new(sizes, Judge::DONE))
        })
    }

    /// Returns the request that lists all indices of generations, with their settings and aliases. Refuses unknown
    /// variables.
    pub(super) fn indices(&self, collection: &str) -> Result<SearchStep, PlanError> {
        let line = RequestHead::new("GET", self.variables()).segment(&everything(collection))?;
        let line = line.parameter("flat_settings", &true.into())?;
        let request: Request = line.parameter("filter_path", &"*.aliases,*.settings".into())?.finish(Body::None);
        Ok(SearchStep::new(request, Judge::DONE))
    }

    /// Returns the request head `METHOD /COLLECTION-*`, for all indices but shrunk ones. Refuses unknown variables.
    fn days(&self, method: &str, collection: &str) -> Result<RequestHead<'_>, PlanError> {
        RequestHead::new(method, self.variables()).segment(&format!("{collection}-*"))
    }

    /// Returns the query for the newest time per day, in each field that may hold the time of a document. Refuses a
    /// form without a list of names in `times`.
    fn newest(&self, collection: &str, form: &Form) -> Result<SearchStep, PlanError> {
        let times = form.require("times")?;
        let fields = times.as_array().filter(|fields| !fields.is_empty() && fields.iter().all(Value::is_string));
        let fields = fields.ok_or_else(|| PlanError::new(format!("\"times\" wants a list of fields, not {times}")))?;
        let mut aggregations = json!({});
        for (number, field) in fields.iter().enumerate() {
            aggregations[number.to_string()] = json!({
                "date_histogram": {"field": field, "calendar_interval": "day", "min_doc_count": 1},
                "aggs": {"newest": {"max": {"field": field}}},
            });
        }
        let body = self.json(&self.dialect.search(&json!({"size": 0, "aggs": aggregations})))?;
        let line = self.days("POST", collection)?.segment("_search")?;
        Ok(SearchStep::new(line.finish(body), Judge::Search))
    }
}

/// Returns the pattern for the indices of all generations, including shrunk ones.
fn everything(collection: &str) -> String {
    format!("{collection}-*,{SHRUNK}{collection}-*")
}
