//! Interpretation and display of answers.

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf};
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::workload::variables::Values;
use serde_json::Value;

use super::bson::{json, owned, value};
use super::bulk::{documents, number, written};
use super::connection::FoundDocuments;
use super::error::inside;
use crate::assertion::{Assertion, assertion, field};
use crate::outcome::Documents;

/// Fields of a command's answer that only its driver and its cluster use.
const OWN: [&str; 4] = ["$clusterTime", "operationTime", "electionId", "opTime"];

/// The answer to an operation.
#[derive(Debug)]
pub enum Answer {
    /// Documents.
    Documents(FoundDocuments),
    /// Result of a command; valid.
    Result(RawDocumentBuf),
}

impl Documents for Answer {
    /// Returns the number of documents. The result of a command counts as one.
    fn documents(&self) -> u64 {
        match self {
            Self::Documents(batch) => batch.documents,
            Self::Result(_) => 1,
        }
    }
}

impl Answer {
    /// Returns the size of all documents, in bytes; 0 for a command.
    pub fn size(&self) -> u64 {
        match self {
            Self::Documents(batch) => batch.bytes,
            Self::Result(_) => 0,
        }
    }

    /// Returns the answer, or a failure of class Client if it has no documents.
    pub fn or_not_found(self) -> Result<Self, Failure> {
        if self.documents() == 0 { Err(missing()) } else { Ok(self) }
    }

    /// Returns the answer, or a failure if a write failed or its write concern was not met.
    pub fn acknowledged(self) -> Result<Self, Failure> {
        let Self::Result(answer) = &self else { return Ok(self) };
        match write_error(answer) {
            Some(failure) => Err(failure),
            None => Ok(self),
        }
    }

    /// Returns the answer, or a failure if a write failed, its write concern was not met, or it found no document.
    pub fn done(self) -> Result<Self, Failure> {
        let answered = self.acknowledged()?;
        let Self::Result(answer) = &answered else { return Ok(answered) };
        if written(answer) == Some(0) { Err(missing()) } else { Ok(answered) }
    }

    /// Returns the number of documents that a native command wrote: 0 if the write concern was not met, `None` if the
    /// answer has no such number or is a list of documents.
    pub fn documents_written(&self) -> Option<u64> {
        const COUNTS: [&str; 4] = ["nInserted", "nUpserted", "nMatched", "nDeleted"];
        let Self::Result(answer) = self else { return None };
        if value(answer, "writeConcernError").is_some() {
            return Some(0);
        }
        if let Some(changed) = value(answer, "lastErrorObject").and_then(RawBsonRef::as_document) {
            return written(changed);
        }
        let counts = COUNTS.iter().filter_map(|name| value(answer, name).and_then(number));
        counts.reduce(u64::saturating_add).or_else(|| written(answer))
    }

    /// Returns a failure if the answer contradicts the workload's assertion.
    /// Fields refer to the first document; without a document, they are a failure.
    pub fn judge(&self, asserted: &Assertion, values: &Values) -> Result<(), Failure> {
        asserted.judge_hits(self.documents(), "")?;
        if !asserted.has_fields() {
            return Ok(());
        }
        let first = self.read().next();
        let first =
            first.ok_or_else(|| assertion("cannot check fields: the answer contains no document".to_owned()))?;
        asserted.judge_fields(values, |name| field(&first, name).cloned())
    }

    /// Returns the first document, or the result of a command, as JSON; `None` if there is none.
    pub fn first(&self) -> Option<Value> {
        match self {
            Self::Documents(_) => self.read().next(),
            Self::Result(answer) => json(answer),
        }
    }

    /// Returns the documents of the first batch, with their types and field order. Leaves out invalid ones.
    pub fn typed_documents(&self) -> Vec<Document> {
        self.raw().filter_map(owned).collect()
    }

    /// Returns the documents of the first batch, as JSON; none for the result of a command. Leaves out invalid ones.
    pub fn read(&self) -> impl Iterator<Item = Value> {
        self.raw().filter_map(json)
    }

    /// Returns the documents of the first batch in BSON; none for the result of a command.
    fn raw(&self) -> impl Iterator<Item = &RawDocument> {
        let batch = if let Self::Documents(batch) = self { Some(batch) } else { None };
        batch.into_iter().flat_map(FoundDocuments::documents)
    }

    /// Returns all documents as a JSON list; `None` if there are more than in the first batch, and for the result of a
    /// command.
    pub fn list(&self) -> Option<Vec<u8>> {
        let Self::Documents(batch) = self else { return None };
        let documents: Vec<Value> = self.read().collect();
        (documents.len() as u64 == batch.documents).then(|| Value::Array(documents).to_string().into_bytes())
    }

    /// Formats the answer for display: one document per line below their number, or the result of a command.
    pub fn text(&self) -> String {
        match self {
            Self::Documents(batch) => {
                let rows: String = self.read().map(|document| format!("\n{document}")).collect();
                format!("{} documents{rows}", batch.documents)
            }
            Self::Result(answer) => {
                let result = owned(answer).unwrap_or_default().into_iter();
                let result: Document = result.filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
                Bson::Document(result).into_relaxed_extjson().to_string()
            }
        }
    }
}

/// Returns the failure of a command's first failed write, or of its write concern; `None` if all succeeded.
fn write_error(answer: &RawDocument) -> Option<Failure> {
    let concern = || value(answer, "writeConcernError").and_then(RawBsonRef::as_document);
    if let Some(error) = documents(answer, "writeErrors").next().or_else(concern) {
        return Some(inside(error));
    }
    // The answer to a `bulkWrite` returns the outcome of each write in a cursor.
    let errors = value(answer, "nErrors").and_then(number).filter(|errors| *errors > 0)?;
    let cursor = value(answer, "cursor").and_then(RawBsonRef::as_document);
    let mut outcomes = cursor.into_iter().flat_map(|cursor| documents(cursor, "firstBatch"));
    let first = outcomes.find(|outcome| value(outcome, "code").is_some());
    Some(first.map_or_else(|| Failure::new(ErrorClass::Client, format!("{errors} writes failed")), inside))
}

/// Returns the failure for a request that matches no document, of class Client.
fn missing() -> Failure {
    Failure::new(ErrorClass::Client, "not found")
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    /// Returns class and message of the failure that `Answer::done` reports for a command's answer.
    fn done(answer: RawDocumentBuf) -> Result<(), (ErrorClass, String)> {
        Answer::Result(answer).done().map(drop).map_err(|failure| (failure.class, failure.message))
    }

    #[test]
    fn a_write_that_was_not_done_is_no_success() {
        assert_eq!(done(rawdoc! {"n": 1, "ok": 1.0}), Ok(()));
        assert_eq!(done(rawdoc! {"ok": 1.0}), Ok(()), "unacknowledged");
        assert_eq!(done(rawdoc! {"n": 0, "ok": 1.0}), Err((ErrorClass::Client, "not found".into())));
        let duplicate = rawdoc! {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000 duplicate"}]};
        assert_eq!(done(duplicate), Err((ErrorClass::Client, "E11000 duplicate".into())));
        let unsure = rawdoc! {"n": 1, "writeConcernError": {"code": 64, "errmsg": "waiting for replication"}};
        assert_eq!(done(unsure), Err((ErrorClass::Timeout, "waiting for replication".into())));
    }

    #[test]
    fn fields_of_the_cluster_are_hidden_in_shown_answers() {
        let answer = Answer::Result(rawdoc! {"n": 1, "ok": 1.0, "operationTime": 5, "$clusterTime": {"a": 1}});
        assert_eq!(answer.text(), r#"{"n":1,"ok":1.0}"#);
        assert_eq!(Answer::Documents(FoundDocuments::default()).text(), "0 documents");
        assert_eq!(Answer::Documents(FoundDocuments::default()).list(), Some(b"[]".to_vec()));
        assert_eq!(
            Answer::Documents(FoundDocuments { documents: 1, ..FoundDocuments::default() }).list(),
            None,
            "the rest was only counted"
        );
        assert!(Answer::Documents(FoundDocuments::default()).or_not_found().is_err());
    }

    #[test]
    fn errors_inside_of_any_commands_answer_are_failures() {
        let result = |answer: RawDocumentBuf| {
            let answer = Answer::Result(answer);
            let written = answer.documents_written();
            (answer.acknowledged().err().map(|failure| failure.class), written)
        };
        assert_eq!(result(rawdoc! {"ok": 1.0, "n": 0}), (None, Some(0)));
        assert_eq!(result(rawdoc! {"ok": 1.0}), (None, None));
        let errors = rawdoc! {"n": 4, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "E11000"}], "ok": 1.0};
        assert_eq!(result(errors), (Some(ErrorClass::Client), Some(4)));
        let concern = rawdoc! {"n": 1, "writeConcernError": {"code": 100, "errmsg": "not enough"}, "ok": 1.0};
        assert_eq!(result(concern), (Some(ErrorClass::Server), Some(0)));
        let first = rawdoc! {"ok": 0.0, "idx": 0, "code": 11000, "errmsg": "E11000"};
        let several =
            rawdoc! {"cursor": {"firstBatch": [first], "id": 0_i64}, "nErrors": 1, "nInserted": 2, "nDeleted": 3};
        assert_eq!(result(several), (Some(ErrorClass::Client), Some(5)));
        let boundless = rawdoc! {"nInserted": i64::MAX, "nMatched": i64::MAX, "nDeleted": i64::MAX, "ok": 1.0};
        assert_eq!(result(boundless), (None, Some(u64::MAX)));
        let changed = rawdoc! {"lastErrorObject": {"n": 1, "updatedExisting": true}, "value": {}, "ok": 1.0};
        assert_eq!(result(changed), (None, Some(1)));
    }
}
