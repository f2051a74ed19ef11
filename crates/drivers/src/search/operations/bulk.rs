//! Requests that carry many documents.

use loadframe_engine::nearest::unknown;
use loadframe_engine::plan::PlanError;
use serde_json::Value;

use super::{Mapped, Mapping};
use crate::form::Form;
use crate::http1::request::{Body, Bulk};
use crate::search::judge::Judge;

impl Mapping<'_> {
    pub(super) fn bulk(&self, argument: &Value) -> Mapped {
        let form = Form::new(argument, &["collection", "corpus", "size", "action"])?;
        let action: &[u8] = match form.get("action").map(|_| form.text("action")).transpose()? {
            None | Some("index") => b"{\"index\":{}}\n",
            Some("create") => b"{\"create\":{}}\n",
            Some(other) => return Err(PlanError(unknown("action", other, ["index", "create"]))),
        };
        let corpus = self.context.corpora.get(form.text("corpus")?)?;
        let body = Body::Bulk(Bulk { corpus, size: form.count("size")?, action });
        let line = self.dialect.bulk().iter().try_fold(self.line("POST", &form)?, |line, name| line.segment(name))?;
        Ok((line.finish(body), Judge::Bulk))
    }
}
