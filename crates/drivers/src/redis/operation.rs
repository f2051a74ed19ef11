//! Operations: a neutral verb, or a command of the store.

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use super::captured::{CapturedReply, taken};
use super::collection::{Collection, Collections};
use super::request::Writer;
use super::script::Script;
use super::slots::slot_of;
use crate::assertion::Assertion;
use crate::capture::Captures;
use crate::crud::{Action, Cell, Key, Neutral, Read, Scalar, Scan, VERBS, Write};
use crate::form;
use crate::timeout;

/// Options next to the kind.
const OPTIONS: [&str; 3] = ["timeout", "assert", "capture"];

/// An operation, ready to execute.
#[derive(Debug)]
pub struct Operation {
    /// The request.
    pub kind: Kind,
    /// Timeout of the operation.
    pub timeout: Duration,
    /// Assertion on the answer.
    pub assertion: Option<Assertion>,
    /// Values to capture from the answer.
    pub captures: Captures<CapturedReply>,
}

/// Request of an operation.
#[derive(Debug)]
pub enum Kind {
    /// A neutral verb and its collection.
    Neutral(Neutral, Arc<Collection>),
    /// A command of the store.
    Command(Command),
}

/// The words of a command, and the index of the key that determines the cluster's node.
#[derive(Debug)]
pub struct Command {
    words: Vec<Template>,
    key: Option<usize>,
    /// Whether it ends a transaction; a nil reply then means that the server did nothing.
    pub is_exec: bool,
}

impl Operation {
    /// Maps `{"read": {...}, "timeout": 5}` or `{"command": [...]}`, and registers the collection. `timeout` is the
    /// default. Refuses assertions and captures that the answer cannot support.
    pub fn map(
        form: &Value,
        context: &Context,
        collections: &Collections,
        timeout: Duration,
    ) -> Result<Self, PlanError> {
        let kinds: Vec<_> = VERBS.into_iter().chain(["command"]).collect();
        let (name, argument) = form::kind(form, &kinds, &OPTIONS)?;
        let timeout = timeout::of_operation(form, timeout)?;
        let kind = if name == "command" {
            Kind::Command(Command::map(argument, &context.variables).map_err(|error| error.within(name))?)
        } else {
            let neutral = Neutral::map(name, argument, context);
            let neutral =
                neutral.ok_or_else(|| PlanError::new(unknown("operation", name, kinds.iter().copied())))??;
            let collection = collections.get(neutral.collection());
            Kind::Neutral(neutral, collection)
        };
        let assertion = form.get("assert").filter(|assert| !assert.is_null());
        let assertion =
            assertion.map(|assert| Assertion::map_without_recall(assert, &context.variables)).transpose()?;
        if let Some(assertion) = &assertion {
            let reads = matches!(&kind, Kind::Neutral(neutral, _) if neutral.reads());
            if !(reads || matches!(kind, Kind::Command(_)))
                || (assertion.has_fields() && matches!(kind, Kind::Command(_)))
            {
                return Err(PlanError::new(format!(
                    "{name:?} answers with nothing that such an assertion could be about"
                )));
            }
        }
        let reads = matches!(&kind, Kind::Neutral(neutral, _) if neutral.reads());
        let captures = taken(form, reads, matches!(kind, Kind::Command(_)), &context.variables)?;
        Ok(Self { kind, timeout, assertion, captures })
    }
}

impl Command {
    /// Reads a command's words, a non-empty list of texts and numbers, and finds its key by the command's name.
    /// Refuses other values and unknown variables.
    fn map(argument: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let wrong = || PlanError::new(format!("a list of words is wanted, not {argument}"));
        let list = argument.as_array().filter(|words| !words.is_empty()).ok_or_else(wrong)?;
        let word = |value: &Value| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => return Err(wrong()),
            };
            let mut template = Template::default();
            template.push_verbatim(&text, variables)?;
            Ok(template)
        };
        let words: Vec<_> = list.iter().map(word).collect::<Result<_, PlanError>>()?;
        // The index of the key: the first argument of most commands, with exceptions listed here.
        let name = list[0].as_str().unwrap_or_default().to_ascii_uppercase();
        let key = match name.as_str() {
            "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" | "BLMPOP" | "BZMPOP" => 3,
            "OBJECT" | "MEMORY" | "XGROUP" | "XINFO" | "BITOP" => 2,
            "LMPOP" | "ZMPOP" | "SINTERCARD" | "ZINTER" | "ZUNION" | "ZDIFF" | "ZINTERCARD" => 2,
            // Behind a group and a consumer, which may have any name.
            "XREADGROUP" => after_streams(list, 4),
            "XREAD" => after_streams(list, 1),
            _ => 1,
        };
        Ok(Self { key: (key < words.len()).then_some(key), words, is_exec: name == "EXEC" })
    }

    /// Appends the command with drawn values to `buffers.request`; returns the slot of its key, or `None` without a
    /// key.
    pub fn write(&self, values: &Values, buffers: &mut Buffers) -> Option<usize> {
        let Buffers { request, word, .. } = buffers;
        let mut writer = Writer::new(request, word);
        writer.begin(self.words.len());
        self.words.iter().for_each(|template| writer.drawn(template, values));
        self.key.map(|key| {
            word.clear();
            self.words[key].render(values, word);
            slot_of(word)
        })
    }
}

/// Returns the index of the word behind STREAMS, which is looked for from the index `from` on; 1 without this word.
fn after_streams(words: &[Value], from: usize) -> usize {
    let is_streams = |word: &Value| word.as_str().is_some_and(|word| word.eq_ignore_ascii_case("STREAMS"));
    words.iter().skip(from).position(is_streams).map_or(1, |place| from + place + 1)
}

/// Buffers that all requests of a client reuse.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The command.
    pub request: Vec<u8>,
    word: Vec<u8>,
    key: Vec<u8>,
    id: usize,
    value: Vec<u8>,
}

impl Buffers {
    /// Builds a document's key, `COLLECTION:ID`, and records where its id starts; returns its slot.
    fn key(&mut self, key: &Key, values: &Values) -> usize {
        self.key.clear();
        self.key.extend_from_slice(key.collection.as_bytes());
        self.key.push(b':');
        self.id = self.key.len();
        key.id.render(values, &mut self.key);
        slot_of(&self.key)
    }

    /// Builds the key `COLLECTION:ID` for a given id and records where the id starts; returns its slot.
    pub fn named(&mut self, collection: &str, id: &[u8]) -> usize {
        self.key.clear();
        self.key.extend_from_slice(collection.as_bytes());
        self.key.push(b':');
        self.id = self.key.len();
        self.key.extend_from_slice(id);
        slot_of(&self.key)
    }

    /// Starts the command for an action on the document of the last key. `fields` names and values must follow.
    pub fn begin(&mut self, action: Action, collection: &Collection, fields: usize) {
        let Self { request, word, key, id, .. } = self;
        let mut writer = Writer::new(request, word);
        let indexed = collection.indexed();
        match Script::of(action, indexed) {
            Some(script) => {
                writer.begin(if indexed { 6 } else { 4 } + 2 * fields);
                script.call(&mut writer);
                writer.word(if indexed { "2" } else { "1" });
                writer.word(&key);
                if indexed {
                    writer.word(&collection.name);
                    writer.word(&key[*id..]);
                }
            }
            None => {
                writer.begin(2 + 2 * fields);
                writer.word(if action == Action::Delete { "DEL" } else { "HSET" });
                writer.word(&key);
            }
        }
    }

    /// Appends the name and the value of a field.
    pub fn field(&mut self, name: &[u8], value: &Scalar) {
        let mut writer = Writer::new(&mut self.request, &mut self.word);
        writer.word(name);
        writer.value(value);
    }

    /// Appends the names and values of a document's fields.
    fn document(&mut self, document: &[(Template, Cell)], values: &Values) {
        for (name, cell) in document {
            let Self { request, word, value, .. } = self;
            let mut writer = Writer::new(request, word);
            writer.drawn(name, values);
            writer.value(&cell.scalar(values, value).unwrap_or(Scalar::Null));
        }
    }

    /// Appends a read of a document; returns its slot. Reads all fields if `fields` is empty.
    pub fn read(&mut self, key: &Key, fields: &[Template], values: &Values) -> usize {
        let slot = self.key(key, values);
        let Self { request, word, key, .. } = self;
        let mut writer = Writer::new(request, word);
        writer.begin(2 + fields.len());
        writer.word(if fields.is_empty() { "HGETALL" } else { "HMGET" });
        writer.word(&key);
        fields.iter().for_each(|field| writer.drawn(field, values));
        slot
    }

    /// Appends an action on one document, with its fields; returns the slot of its key.
    pub fn write(&mut self, action: Action, write: &Write, collection: &Collection, values: &Values) -> usize {
        let slot = self.key(&write.key, values);
        self.begin(action, collection, write.document.len());
        self.document(&write.document, values);
        slot
    }

    /// Appends the deletion of a document; returns the slot of its key.
    fn delete(&mut self, key: &Key, collection: &Collection, values: &Values) -> usize {
        let slot = self.key(key, values);
        self.begin(Action::Delete, collection, 0);
        slot
    }

    /// Appends a call of the scan script; returns the slot of the collection's index.
    fn scan(&mut self, scan: &Scan, collection: &Collection, values: &Values) -> usize {
        self.key(&scan.from, values);
        let Self { request, word, key, id, value } = self;
        let mut writer = Writer::new(request, word);
        writer.begin(7);
        Script::scan().call(&mut writer);
        writer.word("1");
        writer.word(&collection.name);
        writer.word(&key[*id..]);
        writer.value(&scan.count.scalar(values, value).unwrap_or(Scalar::Int(0)));
        writer.word(&key[..*id]);
        slot_of(collection.name.as_bytes())
    }

    /// Replaces the request by a verb's first command; returns its slot. Returns `None` for a bulk request.
    pub fn verb(&mut self, neutral: &Neutral, collection: &Collection, values: &Values) -> Option<usize> {
        self.request.clear();
        Some(match neutral {
            Neutral::Insert(write) => self.write(Action::Create, write, collection, values),
            Neutral::Update(write) => self.write(Action::Update, write, collection, values),
            Neutral::Upsert(write) => self.write(Action::Upsert, write, collection, values),
            Neutral::Read(Read { key, fields }) => self.read(key, fields, values),
            Neutral::ReadModifyWrite(write) => self.read(&write.key, &[], values),
            Neutral::Delete(key) => self.delete(key, collection, values),
            Neutral::Scan(scan) => self.scan(scan, collection, values),
            Neutral::Bulk(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_goes_to_the_node_of_its_first_key() {
        for (words, key) in [
            (json!(["GET", "a"]), Some(1)),
            (json!(["PING"]), None),
            (json!(["EVAL", "return 1", 1, "a"]), Some(3)),
            (json!(["BLMPOP", 1, 1, "a", "LEFT"]), Some(3)),
            (json!(["xread", "COUNT", 2, "streams", "a", "b", "0", "0"]), Some(4)),
            (json!(["XREADGROUP", "GROUP", "streams", "me", "STREAMS", "a", ">"]), Some(5)),
        ] {
            let command = Command::map(&words, &Variables::default()).unwrap();
            assert_eq!(command.key, key, "{words}");
        }
    }
}
