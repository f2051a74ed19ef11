//! Corpora: documents by number, generated or read from NDJSON files.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::nearest::unknown;
use crate::plan::PlanError;

/// A workload's corpora, by name.
#[derive(Clone, Debug, Default)]
pub struct Corpora {
    corpora: BTreeMap<String, Arc<Corpus>>,
}

/// A numbered sequence of documents.
#[derive(Debug)]
pub struct Corpus {
    documents: u64,
}

impl Corpora {
    /// Opens `{"trips": {"generate": "nyc_taxi_trip", "documents": 1000}}` or `{"trips": {"files": [...]}}`.
    pub fn open(forms: &BTreeMap<String, Value>, _seed: u64) -> Result<Self, PlanError> {
        let mut corpora = BTreeMap::new();
        for (name, form) in forms {
            let documents = form.get("documents").and_then(Value::as_u64);
            let documents =
                documents.ok_or_else(|| PlanError(format!("corpus \"{name}\": \"documents\" is missing")))?;
            corpora.insert(name.clone(), Arc::new(Corpus { documents }));
        }
        Ok(Self { corpora })
    }

    /// The corpus of that name.
    pub fn get(&self, name: &str) -> Result<Arc<Corpus>, PlanError> {
        let known = self.corpora.keys().map(String::as_str);
        self.corpora.get(name).cloned().ok_or_else(|| PlanError(unknown("corpus", name, known)))
    }
}

impl Corpus {
    /// How many documents there are.
    pub fn documents(&self) -> u64 {
        self.documents
    }
}
