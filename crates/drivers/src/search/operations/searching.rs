//! Searches.

use loadframe_engine::plan::PlanError;
use serde_json::Value;

use super::{Mapped, Mapping, parameters};
use crate::form::Form;
use crate::http1::request::Body;
use crate::search::judge::Judge;

impl Mapping<'_> {
    pub(super) fn search(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "body", "size", "request_cache", "parameters"])?;
        let mut line = self.line("POST", &form)?.segment("_search")?;
        if let Some(cache) = form.switch("request_cache")? {
            line = line.parameter("request_cache", &Value::Bool(cache))?;
        }
        if let Some(size) = form.get("size") {
            if !(size.is_u64() || size.is_string()) {
                return Err(PlanError(format!("\"size\" wants a whole number, not {size}")));
            }
            line = line.parameter("size", size)?;
        }
        line = parameters(line, &form)?;
        let body = match form.get("body") {
            Some(_) => self.json(&self.dialect.search(form.mapping("body")?))?,
            None => Body::None,
        };
        Ok((line.finish(body), Judge::Search))
    }
}
