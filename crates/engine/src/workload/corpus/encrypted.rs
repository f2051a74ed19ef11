//! Encrypted corpora: documents are encrypted once, into a file in the cache, before any is sent.
//!
//! Field names are not encrypted. Each field has its own type of encryption; fields without one are refused.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Map, Value, json};

use super::Corpus;
use super::cache;
use super::cache::Stamp;
use super::document_limits::DocumentLimits;
use super::files::Files;
use super::lines::LineOptions;
use super::progress::Progress;
use crate::plan::PlanError;
use crate::util::draw::hash_name;
use crate::workload::cipher::Field;

/// Version of the encryption. A new version invalidates cached files.
const VERSION: u32 = 1;
/// Number of documents read at once.
const BATCH: u64 = 1000;

/// Another corpus with its values encrypted.
#[derive(Debug)]
pub struct Encrypted {
    plain: Box<Corpus>,
    fields: HashMap<String, Field>,
    /// The name of the file in the cache.
    name: String,
    /// The encrypted documents, once the file exists.
    files: OnceLock<Files>,
}

impl Encrypted {
    /// Parses `{"of": {a corpus}, "key": "...", "fields": {"a.b": "text", ...}}` and opens the plain corpus. Encrypts
    /// nothing yet. `seed`: for a generated corpus. Refuses other forms, invalid keys and unusable corpora.
    pub fn open(form: &Value, seed: u64) -> Result<Self, PlanError> {
        let wrong = || PlanError::new("an encrypted corpus requires of, key and fields");
        let fields = form.get("fields").and_then(Value::as_object);
        let parts = (form.get("of"), form.get("key").and_then(Value::as_str), fields);
        let (Some(of), Some(key), Some(fields)) = parts else { return Err(wrong()) };
        let field = |(name, how): (&String, &Value)| Ok((name.clone(), Field::new(key, name, how)?));
        Ok(Self {
            plain: Box::new(Corpus::open(of, seed)?),
            fields: fields.iter().map(field).collect::<Result<_, PlanError>>()?,
            name: format!("{:016x}-encrypted.ndjson", hash_name(&identity(form, of, seed)?)),
            files: OnceLock::new(),
        })
    }

    /// Returns the corpus that is encrypted.
    pub fn plain(&self) -> &Corpus {
        &self.plain
    }

    /// Encrypts all documents into the cache, unless they are cached, and opens the encrypted file; waits while
    /// another process encrypts it. Call it before the load, which then only copies. Fails without a cache folder,
    /// without disk space, or if a document cannot be encrypted.
    pub fn make_ready(&self) -> Result<(), PlanError> {
        let none = || PlanError::new("encrypting documents requires a cache folder; set LOADFRAME_CACHE");
        self.make_ready_in(&cache::folder().ok_or_else(none)?)
    }

    /// Implements [`Self::make_ready`]. `folder`: the cache folder, which it creates.
    /// Blocks while another process encrypts the same file. Fails without disk space, or for an invalid document.
    fn make_ready_in(&self, folder: &Path) -> Result<(), PlanError> {
        let target = folder.join(&self.name);
        let away = |error: io::Error| match error.kind() {
            io::ErrorKind::StorageFull => {
                PlanError::new(format!("{}: no disk space left for encrypted documents", folder.display()))
            }
            _ => PlanError::new(format!("{}: {error}", folder.display())),
        };
        fs::create_dir_all(folder).map_err(away)?;
        // Other generators on this machine wait while one encrypts.
        let lock = File::create(target.with_extension("lock")).map_err(away)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| away(error.into()))?;
        if !target.exists() {
            let partial = target.with_extension("partial");
            let written = match File::create(&partial) {
                Ok(file) => self.write(file, away).and_then(|()| fs::rename(&partial, &target).map_err(away)),
                Err(error) => Err(away(error)),
            };
            if let Err(error) = written {
                let _ = fs::remove_file(&partial);
                return Err(error);
            }
        }
        let files = Files::open(&[target], DocumentLimits::default(), LineOptions::default())?;
        self.files.get_or_init(|| files);
        Ok(())
    }

    /// Encrypts all documents into a file, and shows the progress on a terminal. `away`: converts an error of the
    /// file. Fails if a document cannot be encrypted or the file cannot be written.
    fn write(&self, file: File, away: impl Fn(io::Error) -> PlanError) -> Result<(), PlanError> {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let mut batch = Vec::new();
        let mut progress = Progress::new();
        for first in (0..self.plain.documents()).step_by(BATCH as usize) {
            progress.tell(|| format!("encrypting documents: {} %", first * 100 / self.plain.documents()));
            batch.clear();
            self.plain.append(first, BATCH, b"", &mut batch);
            let lines = batch.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for (line, number) in lines.zip(first + 1..) {
                let at = |reason| PlanError::new(format!("document {number} cannot be encrypted: {reason}"));
                serde_json::to_writer(&mut file, &self.document(line).map_err(at)?).map_err(|e| away(e.into()))?;
                file.write_all(b"\n").map_err(&away)?;
            }
        }
        file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| file.sync_all()).map_err(away)
    }

    /// Appends `count` documents from number `first` on, each as `prefix`, the encrypted document and a line end.
    /// Encrypts them here if they are not cached yet, for display only; one that cannot be encrypted then becomes an
    /// object with the reason.
    pub fn append(&self, first: u64, count: u64, prefix: &[u8], out: &mut Vec<u8>) {
        let Some(files) = self.files.get() else {
            for number in first..first + count {
                let mut line = Vec::new();
                self.plain.append(number, 1, b"", &mut line);
                let shown = self.document(&line).unwrap_or_else(|reason| json!({ "not encrypted": reason }));
                out.extend_from_slice(prefix);
                out.extend_from_slice(shown.to_string().as_bytes());
                out.push(b'\n');
            }
            return;
        };
        files.append(first, count, prefix, out);
    }

    /// Encrypts the document in a line; the error names the field and the reason.
    fn document(&self, line: &[u8]) -> Result<Value, String> {
        let plain = serde_json::from_slice(line).map_err(|error| format!("it is not a JSON object: {error}"))?;
        object(plain, "", &self.fields)
    }
}

/// Returns a text of everything that determines the contents of the encrypted file: `form`, and of the plain corpus
/// `of` the seed or the states of its files. Fails if a plain file is missing.
fn identity(form: &Value, of: &Value, seed: u64) -> Result<String, PlanError> {
    let mut identity = format!("{VERSION}\n{form}");
    if of.get("generate").is_some() {
        identity += &format!("\n{seed}");
    }
    for path in of.get("files").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let stamp = fs::metadata(path).map(|metadata| Stamp::of(&metadata));
        let Stamp { bytes, changed } = stamp.map_err(|error| PlanError::new(format!("{path}: {error}")))?;
        identity += &format!("\n{path}\n{bytes}\n{changed}");
    }
    Ok(identity)
}

/// Encrypts the members of an object. `before`: dotted path of the object; empty for the document. `fields`:
/// encryption of each field by its dotted path. The error names a field without encryption.
fn object(plain: Map<String, Value>, before: &str, fields: &HashMap<String, Field>) -> Result<Value, String> {
    let member = |(name, value): (String, Value)| {
        let path = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
        Ok((name, inside(value, &path, fields)?))
    };
    plain.into_iter().map(member).collect::<Result<Map<_, _>, String>>().map(Value::Object)
}

/// Encrypts the value at a dotted path, and the values in an object or array; null stays. The error names a field
/// without encryption.
fn inside(plain: Value, path: &str, fields: &HashMap<String, Field>) -> Result<Value, String> {
    match plain {
        Value::Null => Ok(Value::Null),
        Value::Object(members) => object(members, path, fields),
        Value::Array(elements) => {
            elements.into_iter().map(|element| inside(element, path, fields)).collect::<Result<_, _>>()
        }
        value => {
            let unknown = || format!("the mapping lacks the field {path:?}");
            fields.get(path).ok_or_else(unknown)?.value(&value)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::folder::Folder;
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f";

    /// Returns the definition of an encrypted corpus with the documents of a file.
    fn of_file(path: &Path) -> Value {
        json!({
            "of": {"files": [path.to_str()]},
            "key": KEY,
            "fields": {"name": "text", "at.n": {"number": {"unit": 1}}},
        })
    }

    /// Returns all encrypted documents.
    fn lines(corpus: &Encrypted) -> Vec<Value> {
        let mut out = Vec::new();
        corpus.append(0, corpus.plain().documents(), b"", &mut out);
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_value_is_encrypted_under_the_name_that_it_has() {
        let folder = Folder::new("encrypted");
        let text = "{\"name\": \"a\", \"at\": {\"n\": [1, 2]}}\n{\"at\": {\"n\": 1}, \"name\": null}\n";
        let corpus = Encrypted::open(&of_file(&folder.file("plain.json", text)), 1).unwrap();
        let n = Field::new(KEY, "at.n", &json!({"number": {"unit": 1}})).unwrap();
        let [one, two] = [1, 2].map(|number| n.value(&json!(number)).unwrap());
        let name = Field::new(KEY, "name", &json!("text")).unwrap().value(&json!("a")).unwrap();
        let expected = [json!({"name": name, "at": {"n": [one, two]}}), json!({"at": {"n": one}, "name": null})];
        assert_eq!(lines(&corpus), expected, "what is shown without a load");
        corpus.make_ready_in(&folder.0).unwrap();
        assert_eq!(lines(&corpus), expected, "what a load sends");
    }

    /// A cached file is reused until the key, the files or the seed of generated documents change.
    #[test]
    fn a_corpus_is_encrypted_once_and_again_when_anything_else_is_asked() {
        let folder = Folder::new("encrypted-once");
        let form = of_file(&folder.file("plain.json", "{\"name\": \"a\"}\n"));
        let made = |form: &Value, seed| {
            let corpus = Encrypted::open(form, seed).unwrap();
            corpus.make_ready_in(&folder.0).unwrap();
            folder.0.join(&corpus.name)
        };
        let path = made(&form, 1);
        fs::write(&path, "{\"as\": \"it was\"}\n").unwrap();
        assert_eq!(made(&form, 2), path, "files do not depend on the seed");
        assert_eq!(fs::read(&path).unwrap(), b"{\"as\": \"it was\"}\n");
        let mut other = form.clone();
        other["key"] = "ff".repeat(16).into();
        assert_ne!(made(&other, 1), path);
        folder.file("plain.json", "{\"name\": \"b, which is longer\"}\n");
        assert_ne!(made(&form, 1), path);
        let generated = json!({"of": {"generate": "mri_scan", "documents": 1}, "key": KEY, "fields": {}});
        let [one, two] = [1, 2].map(|seed| Encrypted::open(&generated, seed).unwrap().name);
        assert_ne!(one, two, "generated documents depend on the seed");
    }

    #[test]
    fn a_document_that_cannot_be_encrypted_is_named_and_leaves_nothing_behind() {
        let folder = Folder::new("encrypted-not");
        let error = |text: &str| {
            let corpus = Encrypted::open(&of_file(&folder.file("p.json", text)), 1).unwrap();
            corpus.make_ready_in(&folder.0).unwrap_err().message
        };
        assert_eq!(
            error("{\"name\": \"a\"}\n{\"nmae\": \"a\"}\n"),
            "document 2 cannot be encrypted: the mapping lacks the field \"nmae\""
        );
        assert_eq!(
            error("{\"at\": {\"n\": 1.5}}\n"),
            "document 1 cannot be encrypted: the field \"at.n\" wants a number with at most 0 decimals, not 1.5"
        );
        let left = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
        assert!(
            left.map(|path| path.extension().unwrap().to_owned()).all(|ending| ending == "lock" || ending == "json")
        );
    }
}
