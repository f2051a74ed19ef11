//! Operations on whole collections and on the cluster, and any other request of the protocol.

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use serde_json::{Value, json};

use super::{KINDS, Mapped, Mapping, parameters};
use crate::form::Form;
use crate::http1::request::{Body, RequestHead};
use crate::search::answer::Judge;

/// The methods that a workload can use.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "HEAD"];

impl Mapping<'_> {
    /// Maps an administrative operation, such as `create_collection`, with its `argument`. Refuses other kinds, unknown
    /// keys, and features that the store lacks.
    pub(super) fn administration(&self, kind: &str, argument: &Value) -> Mapped {
        let read = |known: &[&str]| Form::new(argument, known);
        match kind {
            "create_collection" => {
                let form = read(&["collection", "settings", "mappings", "aliases", "data_stream"])?;
                if form.switch("data_stream")? == Some(true) {
                    self.dialect.data_streams()?;
                    if DEFINITION.iter().any(|key| form.get(key).is_some()) {
                        return Err(PlanError::new("a data stream is defined by its template, see put_template"));
                    }
                    let line = self.at_root("PUT", &["_data_stream"])?.segment(form.text("collection")?)?;
                    return Ok((line.finish(Body::None), Judge::DONE));
                }
                let body = self.json(&self.dialect.definition(&taken(&form, &DEFINITION)?))?;
                Ok((self.line("PUT", &form)?.finish(body), Judge::DONE))
            }
            "delete_collection" => {
                let form = read(&["collection", "ignore_missing", "data_stream"])?;
                let ignored = form.switch("ignore_missing")?.unwrap_or(false);
                if form.switch("data_stream")? == Some(true) {
                    self.dialect.data_streams()?;
                    let line = self.at_root("DELETE", &["_data_stream"])?.segment(form.text("collection")?)?;
                    return Ok((line.finish(Body::None), if ignored { Judge::Absent } else { Judge::DONE }));
                }
                let line = self.line("DELETE", &form)?.parameter("ignore_unavailable", &ignored.into())?;
                Ok((line.finish(Body::None), Judge::DONE))
            }
            "put_settings" => {
                let form = read(&["collection", "settings"])?;
                let body = self.json(form.mapping("settings")?)?;
                Ok((self.line("PUT", &form)?.segment("_settings")?.finish(body), Judge::DONE))
            }
            "put_template" => {
                let known =
                    ["name", "patterns", "priority", "settings", "mappings", "aliases", "data_stream", "composed_of"];
                let form = read(&known)?;
                let definition = self.dialect.definition(&taken(&form, &DEFINITION)?);
                let (place, mut body) = self.dialect.template(
                    form.require("patterns")?,
                    form.get("priority").map(|_| form.count("priority")).transpose()?,
                    definition,
                );
                if form.switch("data_stream")? == Some(true) {
                    self.dialect.data_streams()?;
                    body["data_stream"] = json!({});
                }
                if let Some(parts) = form.get("composed_of") {
                    self.dialect.composing()?;
                    body["composed_of"] = parts.clone();
                }
                let line = self.at_root("PUT", &[place])?.segment(form.text("name")?)?;
                Ok((line.finish(self.json(&body)?), Judge::DONE))
            }
            "delete_template" => {
                let form = read(&["name"])?;
                let line = self.at_root("DELETE", &[self.dialect.templates()])?.segment(form.text("name")?)?;
                Ok((line.finish(Body::None), Judge::DONE))
            }
            "aliases" => {
                let form = read(&["actions"])?;
                let body = self.json(&json!({"actions": form.require("actions")?}))?;
                Ok((self.at_root("POST", &["_aliases"])?.finish(body), Judge::DONE))
            }
            "refresh" => {
                let line = self.line("POST", &read(&["collection"])?)?.segment("_refresh")?;
                Ok((line.finish(Body::None), Judge::ON_SHARDS))
            }
            "flush" => {
                let form = read(&["collection", "force"])?;
                let mut line = self.line("POST", &form)?.segment("_flush")?;
                if let Some(force) = form.switch("force")? {
                    line = line.parameter("force", &force.into())?;
                }
                Ok((line.finish(Body::None), Judge::ON_SHARDS))
            }
            "force_merge" => {
                let form = read(&["collection", "max_segments", "only_expunge_deletes", "flush"])?;
                let mut line = self.line("POST", &form)?.segment("_forcemerge")?;
                if form.get("max_segments").is_some() {
                    line = line.parameter("max_num_segments", &form.count("max_segments")?.into())?;
                }
                for key in ["only_expunge_deletes", "flush"] {
                    if let Some(value) = form.switch(key)? {
                        line = line.parameter(key, &value.into())?;
                    }
                }
                Ok((line.finish(Body::None), Judge::ON_SHARDS))
            }
            "rollover" => {
                let form = read(&["alias", "to", "conditions", "settings", "mappings", "aliases"])?;
                let mut line = self.at_root("POST", &[])?.segment(form.text("alias")?)?.segment("_rollover")?;
                if form.get("to").is_some() {
                    line = line.segment(form.text("to")?)?;
                }
                let mut body = self.dialect.definition(&taken(&form, &DEFINITION)?);
                if form.get("conditions").is_some() {
                    body["conditions"] = form.mapping("conditions")?.clone();
                }
                Ok((line.finish(self.json(&body)?), Judge::DONE))
            }
            "create_repository" => {
                let form = read(&["repository", "location", "settings"])?;
                let mut settings = taken(&form, &["settings"])?["settings"].take();
                if settings.is_null() {
                    settings = json!({});
                }
                settings["location"] = form.text("location")?.into();
                let body = self.json(&json!({"type": "fs", "settings": settings}))?;
                Ok((self.at_root("PUT", &["_snapshot"])?.segment(form.text("repository")?)?.finish(body), Judge::DONE))
            }
            "snapshot" => {
                let form = read(&["repository", "name", "collections", "wait"])?;
                let wait = form.switch("wait")?.unwrap_or(true);
                let mut body = json!({"include_global_state": false});
                if let Some(collections) = form.get("collections") {
                    body["indices"] = collections.clone();
                }
                let line = self.snapshot_line("PUT", &form)?.parameter("wait_for_completion", &wait.into())?;
                Ok((line.finish(self.json(&body)?), Judge::Snapshot))
            }
            "delete_snapshot" => {
                let form = read(&["repository", "name"])?;
                Ok((self.snapshot_line("DELETE", &form)?.finish(Body::None), Judge::DONE))
            }
            "wait_for_health" => {
                let form = read(&["collection", "status", "nodes", "still", "wait"])?;
                self.health(&form)
            }
            _ => Err(PlanError::new(unknown("operation", kind, KINDS))),
        }
    }

    /// Returns the request head `METHOD /segment/...`. Refuses unknown variables.
    fn at_root(&self, method: &str, segments: &[&str]) -> Result<RequestHead<'_>, PlanError> {
        segments.iter().try_fold(RequestHead::new(method, self.variables()), |line, segment| line.segment(segment))
    }

    /// Returns the request head `METHOD /_snapshot/REPOSITORY/NAME`. Refuses a form without `repository` or `name`.
    fn snapshot_line(&self, method: &str, form: &Form) -> Result<RequestHead<'_>, PlanError> {
        self.at_root(method, &["_snapshot"])?.segment(form.text("repository")?)?.segment(form.text("name")?)
    }

    /// Maps a request that waits for a cluster state, by default 30 s for the status green. The store answers 408 with
    /// `timed_out` if the state does not occur. Refuses wrong types, and a wait of 0 or less.
    fn health(&self, form: &Form) -> Mapped {
        let mut line = self.at_root("GET", &["_cluster", "health"])?;
        if form.get("collection").is_some() {
            line = line.segment(form.text("collection")?)?;
        }
        let status = form.get("status").map_or(Ok("green"), |_| form.text("status"))?;
        line = line.parameter("wait_for_status", &status.into())?;
        if form.get("nodes").is_some() {
            line = line.parameter("wait_for_nodes", &form.count("nodes")?.into())?;
        }
        if form.switch("still")? == Some(true) {
            line = line.parameter("wait_for_no_relocating_shards", &true.into())?;
            line = line.parameter("wait_for_no_initializing_shards", &true.into())?;
        }
        let wait = match form.get("wait") {
            None => 30.0,
            Some(wait) => wait
                .as_f64()
                .filter(|wait| *wait > 0.0 && *wait < 1e9)
                .ok_or_else(|| PlanError::new(format!("\"wait\" wants seconds above 0, not {wait}")))?,
        };
        line = line.parameter("timeout", &format!("{}ms", (wait * 1e3).ceil()).into())?;
        Ok((line.finish(Body::None), Judge::ON_SHARDS))
    }

    /// Maps any request: `{"method": "GET", "path": "/_cat", "body": {...}, "parameters": {...}}`. Refuses unknown
    /// methods, and paths without a leading slash.
    pub(super) fn request(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["method", "path", "body", "parameters"])?;
        let (method, path) = (form.text("method")?, form.text("path")?);
        if !METHODS.contains(&method) {
            return Err(PlanError::new(unknown("method", method, METHODS)));
        }
        if !path.starts_with('/') {
            return Err(PlanError::new(format!("\"path\" begins with a slash; {path:?} does not")));
        }
        let line = parameters(RequestHead::new(method, self.variables()).path(path)?, &form)?;
        let body = form.get("body").map_or(Ok(Body::None), |body| self.json(body))?;
        Ok((line.finish(body), Judge::Unfailed))
    }
}

/// Parts of a collection's definition.
const DEFINITION: [&str; 3] = ["settings", "mappings", "aliases"];

/// Returns a mapping of those `keys` that a form has to their values. Refuses values other than mappings.
fn taken(form: &Form, keys: &[&str]) -> Result<Value, PlanError> {
    let mut body = json!({});
    for key in keys {
        if form.get(key).is_some() {
            body[*key] = form.mapping(key)?.clone();
        }
    }
    Ok(body)
}
