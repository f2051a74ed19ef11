//! Operations on one document.

use serde_json::{Value, json};

use super::{Mapped, Mapping};
use crate::form::Form;
use crate::http1::request::Body;
use crate::search::judge::Judge;

impl Mapping<'_> {
    /// An operation on one document that has no body.
    pub(super) fn document(&self, argument: &Value, method: &str, judge: Judge) -> Mapped {
        let form = Form::new(argument, &["collection", "id"])?;
        let line = self.at(method, &form, self.dialect.document())?;
        Ok((line.finish(Body::None), judge))
    }

    pub(super) fn index(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "id", "document"])?;
        let line = match form.get("id") {
            Some(_) => self.at("PUT", &form, self.dialect.document())?,
            None => self.line("POST", &form)?.segment("_doc")?,
        };
        let body = self.json(form.mapping("document")?)?;
        Ok((line.finish(body), Judge::Shards { documents: 1 }))
    }

    pub(super) fn update(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "id", "document"])?;
        let line = self.at("POST", &form, self.dialect.update())?;
        let body = self.json(&json!({"doc": form.mapping("document")?}))?;
        Ok((line.finish(body), Judge::Shards { documents: 1 }))
    }
}
