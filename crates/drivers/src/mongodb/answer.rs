//! What answers mean, and how they read.

use bson::{Bson, Document, RawBsonRef, RawDocumentBuf};
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::variables::Values;
use serde_json::Value;

use super::bson::{json, owned};
use super::bulk::written;
use super::failure::{failure, inside};
use super::line::Found;
use crate::assertion::{Assertion, assertion, field};

/// What an answer to a command has that only its driver and its cluster care for.
const OWN: [&str; 4] = ["$clusterTime", "operationTime", "electionId", "opTime"];

/// The answer.
#[derive(Debug)]
pub enum Answer {
    /// Documents.
    Found(Found),
    /// How a command went.
    Told(Document),
}

impl Answer {
    /// How many documents it has; a command that found none stands for one.
    pub fn documents(&self) -> u64 {
        match self {
            Self::Found(batch) => batch.documents,
            Self::Told(_) => 1,
        }
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Found(batch) => batch.bytes,
            Self::Told(answer) => RawDocumentBuf::try_from(answer).map_or(0, |raw| raw.as_bytes().len() as u64),
        }
    }

    /// The same, a failure where no document was found.
    pub fn or_not_found(self) -> Result<Self, Failure> {
        if self.documents() == 0 { Err(missing()) } else { Ok(self) }
    }

    /// The same, but a failure if the write of one document was not done, or not with the write concern asked for.
    pub fn done(self) -> Result<Self, Failure> {
        let Self::Told(answer) = &self else { return Ok(self) };
        let error = answer.get_array("writeErrors").into_iter().flatten().find_map(Bson::as_document);
        if let Some(error) = error.or(answer.get_document("writeConcernError").ok()) {
            return Err(inside(error));
        }
        if written(answer) == Some(0) { Err(missing()) } else { Ok(self) }
    }

    /// Judges it by what the workload asserts; fields are those of the first document.
    pub fn judge(&self, asserted: &Assertion, values: &Values) -> Result<(), Failure> {
        asserted.judge_hits(self.documents(), "")?;
        if !asserted.has_fields() {
            return Ok(());
        }
        let first = self.read().next();
        let first = first.ok_or_else(|| assertion("no document whose fields could be judged".to_owned()))?;
        asserted.judge_fields(values, |name| field(&first, name).cloned())
    }

    /// The first document, as JSON, or what a command was answered.
    pub fn first(&self) -> Option<Value> {
        match self {
            Self::Found(_) => self.read().next(),
            Self::Told(answer) => Some(Bson::Document(answer.clone()).into_relaxed_extjson()),
        }
    }

    /// The documents of the first answer, with their types and the order of their fields.
    pub fn typed_documents(&self) -> Vec<Document> {
        let first = if let Self::Found(batch) = self { batch.first.as_ref() } else { None };
        let documents = first.and_then(|batch| batch.doc_slices().ok());
        let whole = |document: RawBsonRef<'_>| owned(document.as_document()?);
        documents.into_iter().flatten().filter_map(|document| whole(document.ok()?)).collect()
    }

    /// The documents of the first answer, as JSON.
    pub fn read(&self) -> impl Iterator<Item = Value> {
        let first = if let Self::Found(batch) = self { batch.first.as_ref() } else { None };
        let documents = first.and_then(|batch| batch.doc_slices().ok());
        documents.into_iter().flatten().filter_map(|document| json(document.ok()?.as_document()?))
    }

    /// All of its documents as a JSON list; `None` if there are more than came at once.
    pub fn list(&self) -> Option<Vec<u8>> {
        let Self::Found(batch) = self else { return None };
        let documents: Vec<Value> = self.read().collect();
        (documents.len() as u64 == batch.documents).then(|| Value::Array(documents).to_string().into_bytes())
    }

    /// As people read it: documents one a line, under their number; or how the command went.
    pub fn text(&self) -> String {
        match self {
            Self::Found(batch) => {
                let rows: String = self.read().map(|document| format!("\n{document}")).collect();
                format!("{} documents{rows}", batch.documents)
            }
            Self::Told(answer) => {
                let told = answer.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
                let told: Document = told.map(|(name, value)| (name.clone(), value.clone())).collect();
                Bson::Document(told).into_relaxed_extjson().to_string()
            }
        }
    }
}

fn missing() -> Failure {
    failure(ErrorClass::Client, "not found")
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn done(answer: Document) -> Result<(), (ErrorClass, String)> {
        Answer::Told(answer).done().map(drop).map_err(|failure| (failure.class, failure.message))
    }

    #[test]
    fn a_write_that_was_not_done_is_no_success() {
        assert_eq!(done(doc! {"n": 1, "ok": 1.0}), Ok(()));
        assert_eq!(done(doc! {"ok": 1.0}), Ok(()), "unacknowledged");
        assert_eq!(done(doc! {"n": 0, "ok": 1.0}), Err((ErrorClass::Client, "not found".into())));
        let duplicate = doc! {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000 duplicate"}]};
        assert_eq!(done(duplicate), Err((ErrorClass::Client, "E11000 duplicate".into())));
        let unsure = doc! {"n": 1, "writeConcernError": {"code": 64, "errmsg": "waiting for replication"}};
        assert_eq!(done(unsure), Err((ErrorClass::Timeout, "waiting for replication".into())));
    }

    #[test]
    fn an_answer_is_shown_without_what_is_the_clusters_own() {
        let answer = Answer::Told(doc! {"n": 1, "ok": 1.0, "operationTime": 5, "$clusterTime": {"a": 1}});
        assert_eq!(answer.text(), r#"{"n":1,"ok":1.0}"#);
        assert_eq!(Answer::Found(Found::default()).text(), "0 documents");
        assert_eq!(Answer::Found(Found::default()).list(), Some(b"[]".to_vec()));
        assert_eq!(Answer::Found(Found { documents: 1, ..Found::default() }).list(), None, "the rest was only counted");
        assert!(Answer::Found(Found::default()).or_not_found().is_err());
    }
}
