//! Operations on whole collections, and any other request of the protocol.

use loadframe_engine::nearest::unknown;
use loadframe_engine::plan::PlanError;
use serde_json::Value;

use super::{Mapped, Mapping, parameters};
use crate::form::Form;
use crate::http1::request::{Body, Line};
use crate::search::judge::Judge;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "HEAD"];

impl Mapping<'_> {
    pub(super) fn refresh(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection"])?;
        let line = self.line("POST", &form)?.segment("_refresh")?;
        Ok((line.finish(Body::None), Judge::Shards { documents: 0 }))
    }

    pub(super) fn force_merge(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "max_segments"])?;
        let mut line = self.line("POST", &form)?.segment("_forcemerge")?;
        if form.get("max_segments").is_some() {
            line = line.parameter("max_num_segments", &form.count("max_segments")?.into())?;
        }
        Ok((line.finish(Body::None), Judge::Shards { documents: 0 }))
    }

    pub(super) fn request(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["method", "path", "body", "parameters"])?;
        let (method, path) = (form.text("method")?, form.text("path")?);
        if !METHODS.contains(&method) {
            return Err(PlanError(unknown("method", method, METHODS)));
        }
        if !path.starts_with('/') {
            return Err(PlanError(format!("\"path\" begins with a slash; {path:?} does not")));
        }
        let line = parameters(Line::new(method, self.variables()).path(path)?, &form)?;
        let body = form.get("body").map_or(Ok(Body::None), |body| self.json(body))?;
        Ok((line.finish(body), Judge::Status { documents: 0 }))
    }
}
