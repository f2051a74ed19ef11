//! Corpora: documents by number, generated or read from NDJSON files.
//!
//! A corpus is read-only and shared by all clients. Documents are found by number, so generators that stride
//! one schedule split a corpus without communication and without separate files.

mod cache;
mod document_limits;
mod encrypted;
mod files;
#[cfg(test)]
pub(crate) mod folder;
mod geonames;
mod index;
mod lines;
mod mediawiki;
mod mri_scan;
mod nyc_taxi_trip;
mod pieces;
mod progress;
mod quantiles;
pub(crate) mod unpacked;
mod vectors;
mod wikipedia_revision;
mod words;
mod ycsb_record;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::plan::PlanError;
use crate::util::suggestions::unknown;
use crate::workload::corpus::document_limits::DocumentLimits;
use crate::workload::corpus::encrypted::Encrypted;
use crate::workload::corpus::files::Files;
use crate::workload::corpus::lines::LineOptions;
use crate::workload::corpus::vectors::Vectors;

/// Generator of documents: number i is a pure function of the seed and i.
trait Generate: Debug + Send + Sync {
    /// Appends document `number` as one line of JSON, without the line end.
    fn append(&self, number: u64, out: &mut Vec<u8>);
}

/// Constructor of a generator, from its seed and the options in `with`.
type New = fn(u64, &Map<String, Value>) -> Result<Box<dyn Generate>, PlanError>;

const GENERATORS: [(&str, New); 5] = [
    ("nyc_taxi_trip", |seed, with| plain(with, nyc_taxi_trip::NycTaxiTrip::new(seed))),
    ("geonames", |seed, with| plain(with, geonames::Geonames::new(seed))),
    ("mri_scan", |seed, with| plain(with, mri_scan::MriScan::new(seed))),
    ("ycsb_record", |seed, with| Ok(Box::new(ycsb_record::YcsbRecord::new(seed, with)?))),
    ("wikipedia_revision", |seed, with| plain(with, wikipedia_revision::WikipediaRevision::new(seed))),
];

/// Boxes a generator that has no options; refuses any option in `with`.
fn plain(with: &Map<String, Value>, generator: impl Generate + 'static) -> Result<Box<dyn Generate>, PlanError> {
    match with.keys().next() {
        Some(key) => Err(PlanError::new(format!("unknown option \"{key}\"; this generator has none"))),
        None => Ok(Box::new(generator)),
    }
}

/// Returns the names of generators that a corpus can use in `{"generate": NAME}`.
pub fn generators() -> &'static [&'static str] {
    const NAMES: [&str; GENERATORS.len()] = {
        let mut names = [""; GENERATORS.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = GENERATORS[i].0;
            i += 1;
        }
        names
    };
    &NAMES
}

/// Valid keys of a corpus.
const KEYS: [&str; 10] =
    ["generate", "with", "files", "columns", "encrypted", "documents", "at_most", "format", "actions", "broken"];

/// A workload's corpora, by name.
#[derive(Clone, Debug, Default)]
pub struct Corpora {
    corpora: BTreeMap<String, Arc<Corpus>>,
}

/// A numbered sequence of documents.
#[derive(Debug)]
pub struct Corpus(Source);

#[derive(Debug)]
enum Source {
    Generated { generator: Box<dyn Generate>, documents: u64 },
    Files(Files),
    Vectors(Vectors),
    Encrypted(Encrypted),
}

impl Corpora {
    /// Opens corpora such as `{"trips": {"generate": "nyc_taxi_trip", "documents": 1000}}` or `{"trips": {"files":
    /// ["a.json", "b.json.gz"], "documents": 1000, "format": "ndjson", "actions": false, "broken": "stop"}}`. Files
    /// are checked line by line, up to the number of documents if given; compressed ones are unpacked into the cache.
    /// `"at_most": 500` limits the number without requiring it. `{"encrypted": {"of": {...}, "key": "...", "fields":
    /// {"a.b": "text"}}}` encrypts the documents of another corpus. The error names the corpus.
    pub fn open(forms: &BTreeMap<String, Value>, seed: u64) -> Result<Self, PlanError> {
        let open = |(name, form): (&String, &Value)| {
            let corpus = Corpus::open(form, seed).map_err(|error| error.within(format_args!("corpus \"{name}\"")))?;
            Ok((name.clone(), Arc::new(corpus)))
        };
        Ok(Self { corpora: forms.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Iterates over the names and the corpora.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Corpus)> {
        self.corpora.iter().map(|(name, corpus)| (name.as_str(), &**corpus))
    }

    /// Prepares the corpora before the load: encrypts documents into the cache, unless they are cached. The error
    /// names the corpus.
    pub fn make_ready(&self) -> Result<(), PlanError> {
        self.corpora.iter().try_for_each(|(name, corpus)| match &corpus.0 {
            Source::Encrypted(encrypted) => {
                encrypted.make_ready().map_err(|error| error.within(format_args!("corpus \"{name}\"")))
            }
            _ => Ok(()),
        })
    }

    /// Returns the corpus named `name`; the error suggests the nearest name.
    pub fn get(&self, name: &str) -> Result<Arc<Corpus>, PlanError> {
        let known = self.corpora.keys().map(String::as_str);
        self.corpora.get(name).cloned().ok_or_else(|| PlanError::new(unknown("corpus", name, known)))
    }
}

impl Corpus {
    /// Opens a corpus of one of the forms of [`Corpora::open`]; `seed` determines generated documents. Refuses unknown
    /// keys, and files that cannot be used.
    fn open(form: &Value, seed: u64) -> Result<Self, PlanError> {
        let wrong = |what: &str| PlanError::new(format!("{what}: {form}"));
        let mapping =
            form.as_object().ok_or_else(|| wrong("a corpus is a mapping with generate or files, not this"))?;
        if let Some(key) = mapping.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(PlanError::new(unknown("key", key, KEYS)));
        }
        let number = |key: &str| match mapping.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(number) => {
                let positive = number.as_u64().filter(|number| *number > 0);
                positive.map(Some).ok_or_else(|| wrong(&format!("\"{key}\" wants a number above 0")))
            }
        };
        let limits = DocumentLimits { documents: number("documents")?, at_most: number("at_most")? };
        if let Some(columns) = mapping.get("columns") {
            if let Some(key) = mapping.keys().find(|key| !["columns", "documents", "at_most"].contains(&key.as_str())) {
                return Err(PlanError::new(format!("columns of vectors know no \"{key}\"")));
            }
            return Ok(Self(Source::Vectors(Vectors::open(columns, limits)?)));
        }
        if let Some(said) = mapping.get("encrypted") {
            if let Some(key) = mapping.keys().find(|key| !["encrypted", "documents", "at_most"].contains(&key.as_str()))
            {
                return Err(PlanError::new(format!("an encrypted corpus knows no \"{key}\"")));
            }
            return Ok(Self(Source::Encrypted(Encrypted::open(said, seed)?)));
        }
        match (mapping.get("generate"), mapping.get("files")) {
            (Some(generate), None) => {
                let name = generate.as_str().ok_or_else(|| wrong("\"generate\" wants the name of a generator"))?;
                let known = GENERATORS.iter().find(|(known, _)| *known == name);
                let (_, new) =
                    known.ok_or_else(|| PlanError::new(unknown("generator", name, generators().iter().copied())))?;
                let missing = || wrong("\"documents\" says how many to generate; it is missing");
                let documents = limits.documents.and(limits.most()).ok_or_else(missing)?;
                let none = Map::new();
                let with = match mapping.get("with") {
                    None => &none,
                    Some(with) => with.as_object().ok_or_else(|| wrong("\"with\" wants a mapping of options"))?,
                };
                let generator = new(seed, with).map_err(|error| error.within(format_args!("generator \"{name}\"")))?;
                Ok(Self(Source::Generated { generator, documents }))
            }
            (None, Some(files)) => {
                let wrong = || wrong("\"files\" wants a list of paths");
                let files = files.as_array().filter(|files| !files.is_empty()).ok_or_else(wrong)?;
                let path = |file: &Value| file.as_str().map(PathBuf::from).ok_or_else(wrong);
                let paths = files.iter().map(path).collect::<Result<Vec<_>, _>>()?;
                let actions = mapping.get("actions").unwrap_or(&Value::Bool(false));
                let actions = actions.as_bool().ok_or_else(|| PlanError::new("\"actions\" wants true or false"))?;
                let set_aside = match mapping.get("broken").map_or(Some("stop"), Value::as_str) {
                    Some("stop") => false,
                    Some("set_aside") => true,
                    _ => return Err(PlanError::new("\"broken\" wants stop or set_aside")),
                };
                let mediawiki = match mapping.get("format").map_or(Some("ndjson"), Value::as_str) {
                    Some("ndjson") => false,
                    Some("mediawiki") if !actions && !set_aside => true,
                    Some("mediawiki") => return Err(PlanError::new("a dump has neither actions nor broken lines")),
                    _ => return Err(PlanError::new("\"format\" wants ndjson or mediawiki")),
                };
                let reading = LineOptions { actions, set_aside, mediawiki };
                Ok(Self(Source::Files(Files::open(&paths, limits, reading)?)))
            }
            _ => Err(wrong("a corpus wants either \"generate\" or \"files\"")),
        }
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u64 {
        match &self.0 {
            Source::Generated { documents, .. } => *documents,
            Source::Files(files) => files.documents(),
            Source::Vectors(vectors) => vectors.documents(),
            Source::Encrypted(encrypted) => encrypted.plain().documents(),
        }
    }

    /// Returns the number of lines set aside, and the cache files that contain them.
    pub fn set_aside(&self) -> (u64, Vec<&Path>) {
        match &self.0 {
            Source::Generated { .. } | Source::Vectors(_) => (0, Vec::new()),
            Source::Files(files) => files.set_aside(),
            Source::Encrypted(encrypted) => encrypted.plain().set_aside(),
        }
    }

    /// Returns whether its files have an action line, with operation and id, before each document.
    pub fn has_actions(&self) -> bool {
        match &self.0 {
            Source::Generated { .. } | Source::Vectors(_) => false,
            Source::Files(files) => files.has_actions(),
            Source::Encrypted(encrypted) => encrypted.plain().has_actions(),
        }
    }

    /// Appends the action lines of up to `count` documents starting with number `first`, each with a line end; nothing
    /// if the corpus has no actions.
    pub fn append_actions(&self, first: u64, count: u64, out: &mut Vec<u8>) {
        let count = count.min(self.documents().saturating_sub(first));
        match &self.0 {
            Source::Files(files) if files.has_actions() => files.append_actions(first, count, out),
            Source::Encrypted(encrypted) => encrypted.plain().append_actions(first, count, out),
            _ => {}
        }
    }

    /// Appends up to `count` documents from number `first` on, each as `prefix`, the document and a line end.
    /// Returns their number: fewer at the end of the corpus.
    pub fn append(&self, first: u64, count: u64, prefix: &[u8], out: &mut Vec<u8>) -> u64 {
        let count = count.min(self.documents().saturating_sub(first));
        match &self.0 {
            Source::Generated { generator, .. } => {
                for number in first..first + count {
                    out.extend_from_slice(prefix);
                    generator.append(number, out);
                    out.push(b'\n');
                }
            }
            Source::Vectors(vectors) => {
                for number in first..first + count {
                    out.extend_from_slice(prefix);
                    vectors.append(number, out);
                    out.push(b'\n');
                }
            }
            Source::Files(files) => files.append(first, count, prefix, out),
            Source::Encrypted(encrypted) => encrypted.append(first, count, prefix, out),
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Opens the corpus `trips`.
    fn open(form: Value) -> Result<Arc<Corpus>, PlanError> {
        Corpora::open(&BTreeMap::from([("trips".to_owned(), form)]), 42)?.get("trips")
    }

    /// Returns how many documents were appended, and their text, each after an action line.
    fn text(corpus: &Corpus, first: u64, count: u64) -> (u64, String) {
        let mut out = Vec::new();
        let appended = corpus.append(first, count, b"{\"index\":{}}\n", &mut out);
        (appended, String::from_utf8(out).unwrap())
    }

    /// Documents do not depend on the batches in which they are appended.
    #[test]
    fn a_batch_is_the_same_however_the_corpus_is_cut() {
        let corpus = open(json!({"generate": "nyc_taxi_trip", "documents": 100})).unwrap();
        let (appended, whole) = text(&corpus, 0, 100);
        assert_eq!((appended, whole.lines().count()), (100, 200));
        let parts: String = [(0, 1), (1, 49), (50, 50)].map(|(first, count)| text(&corpus, first, count).1).concat();
        assert_eq!(parts, whole);
    }

    #[test]
    fn a_batch_ends_with_the_corpus() {
        let corpus = open(json!({"generate": "nyc_taxi_trip", "documents": 10})).unwrap();
        assert_eq!(text(&corpus, 8, 5).0, 2);
        assert_eq!(text(&corpus, 10, 5), (0, String::new()));
        assert_eq!(text(&corpus, u64::MAX, 5), (0, String::new()));
    }

    #[test]
    fn a_bad_corpus_is_refused_with_its_name_and_the_reason() {
        let error = |form: Value| open(form).unwrap_err().message;
        assert_eq!(
            error(json!({"generate": "nyc_taxi_trips", "documents": 1})),
            "corpus \"trips\": unknown generator \"nyc_taxi_trips\"; did you mean \"nyc_taxi_trip\"?"
        );
        assert_eq!(
            error(json!({"generate": "nyc_taxi_trip", "document": 1})),
            "corpus \"trips\": unknown key \"document\"; did you mean \"documents\"?"
        );
        for form in [
            json!({"generate": "nyc_taxi_trip"}),
            json!({"generate": "nyc_taxi_trip", "documents": 0}),
            json!({"generate": "nyc_taxi_trip", "documents": -1}),
            json!({"generate": "nyc_taxi_trip", "files": ["a"], "documents": 1}),
            json!({"documents": 1}),
            json!({"files": []}),
            json!({"files": "a.json"}),
            json!({"files": ["a.xml"], "format": "xml"}),
            json!({"files": ["a.xml"], "format": "mediawiki", "actions": true}),
            json!("nyc_taxi_trip"),
        ] {
            assert!(error(form.clone()).starts_with("corpus \"trips\": "), "{form} is not a corpus");
        }
    }

    #[test]
    fn an_unknown_corpus_gets_its_nearest_neighbour() {
        let forms = BTreeMap::from([("trips".to_owned(), json!({"generate": "nyc_taxi_trip", "documents": 1}))]);
        let error = Corpora::open(&forms, 1).unwrap().get("trip").unwrap_err();
        assert_eq!(error.message, "unknown corpus \"trip\"; did you mean \"trips\"?");
    }
}
