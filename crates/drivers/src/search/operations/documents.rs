//! Operations on one document.

use serde_json::{Value, json};

use super::{Mapped, Mapping, id};
use crate::form::Form;
use crate::http1::request::Body;
use crate::search::judge::Judge;

impl Mapping<'_> {
    /// An operation on one document that has no body: `METHOD /collection/verb/id`.
    pub(super) fn document(&self, argument: &Value, method: &str, verb: &str, judge: Judge) -> Mapped {
        let form = Form::new(argument, &["collection", "id"])?;
        let line = self.line(method, &form)?.segment(verb)?.segment(&id(form.require("id")?)?)?;
        Ok((line.finish(Body::None), judge))
    }

    pub(super) fn index(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "id", "document"])?;
        let line = match form.get("id") {
            Some(value) => self.line("PUT", &form)?.segment("_doc")?.segment(&id(value)?)?,
            None => self.line("POST", &form)?.segment("_doc")?,
        };
        let body = self.json(form.mapping("document")?)?;
        Ok((line.finish(body), Judge::Shards { documents: 1 }))
    }

    pub(super) fn update(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "id", "document"])?;
        let line = self.line("POST", &form)?.segment("_update")?.segment(&id(form.require("id")?)?)?;
        let body = self.json(&json!({"doc": form.mapping("document")?}))?;
        Ok((line.finish(body), Judge::Shards { documents: 1 }))
    }
}
