//! Store-neutral verbs, parsed once for all protocols: their arguments, and typed values.
//!
//! A document maps names to values. Values of a request are drawn as JSON, which distinguishes numbers from strings.
//! They are read as [`Scalar`]s without copying; each protocol converts them to its own types.

use std::borrow::Cow;
use std::sync::Arc;

use loadframe_engine::driver::Context;
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::corpus::Corpus;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::{Map, Value};

use crate::form::Form;
use loadframe_engine::util::json::{Cursor, Unexpected};

/// The verbs.
pub const VERBS: [&str; 8] = ["insert", "read", "update", "upsert", "delete", "scan", "read_modify_write", "bulk"];

/// The parts of a read_modify_write.
pub const PARTS: [&str; 2] = ["read", "write"];

/// Request of a neutral verb.
#[derive(Debug)]
pub enum Neutral {
    /// Adds a document; an existing one is an error if the store can detect it.
    Insert(Write),
    /// Reads one document.
    Read(Read),
    /// Changes some fields of an existing document.
    Update(Write),
    /// Changes some fields of a document; creates it if it does not exist.
    Upsert(Write),
    /// Deletes a document.
    Delete(Key),
    /// Reads several documents in the order of their ids.
    Scan(Scan),
    /// Reads a document, then updates it.
    ReadModifyWrite(Write),
    /// Writes documents of a corpus.
    Bulk(Bulk),
}

/// A document's collection and id.
#[derive(Debug)]
pub struct Key {
    /// The collection's name.
    pub collection: String,
    /// The document's id, as text.
    pub id: Template,
}

/// A read.
#[derive(Debug)]
pub struct Read {
    /// The document to read.
    pub key: Key,
    /// Names of the requested fields, possibly templates; empty for all fields.
    pub fields: Vec<Template>,
}

impl Read {
    /// Returns the names of the fields that a request reads, rendered with `values`.
    pub fn names(&self, values: &Values) -> Vec<String> {
        let name = |field: &Template| {
            let mut name = Vec::new();
            field.render(values, &mut name);
            String::from_utf8_lossy(&name).into_owned()
        };
        self.fields.iter().map(name).collect()
    }
}

/// A write.
#[derive(Debug)]
pub struct Write {
    /// The document to write.
    pub key: Key,
    /// Names and values; a name may be a template.
    pub document: Vec<(Template, Cell)>,
    /// The same as one JSON object, for protocols that send JSON.
    pub json: Template,
}

/// A scan.
#[derive(Debug)]
pub struct Scan {
    /// The first document, inclusive.
    pub from: Key,
    /// The largest number of documents.
    pub count: Cell,
    /// The field that holds the id, for stores without an order of ids.
    pub by: Option<String>,
}

/// Bulk request. Request `k` sends documents `k size` to `(k + 1) size` of the corpus, which repeats at its end.
#[derive(Debug)]
pub struct Bulk {
    /// The collection's name.
    pub collection: String,
    /// The source of the documents.
    pub corpus: Arc<Corpus>,
    /// The largest number of documents per request.
    pub size: u64,
    /// The action on each document: index, create, update, upsert or delete.
    pub action: Action,
    /// The field that holds a document's id.
    pub id: Option<String>,
}

/// Action of a bulk request on its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Replaces the stored document.
    Index,
    /// Adds the document; an existing one is an error.
    Create,
    /// Changes fields of an existing document.
    Update,
    /// Changes fields of a document; creates it if it does not exist.
    Upsert,
    /// Deletes the document with this id.
    Delete,
}

impl Action {
    /// The names of the actions in workloads.
    const NAMES: [(&str, Self); 5] = [
        ("index", Self::Index),
        ("create", Self::Create),
        ("update", Self::Update),
        ("upsert", Self::Upsert),
        ("delete", Self::Delete),
    ];

    /// Returns the action with this name, or an error that lists the names.
    pub fn parse(name: &str) -> Result<Self, PlanError> {
        let action = Self::NAMES.iter().find(|(known, _)| *known == name);
        let names = Self::NAMES.iter().map(|(known, _)| *known);
        action.map(|(_, known)| *known).ok_or_else(|| PlanError::new(unknown("action", name, names)))
    }
}

impl Bulk {
    /// Returns the number of requests that send each document once; 0 for an empty corpus.
    pub fn requests(&self) -> u64 {
        self.corpus.documents().div_ceil(self.size)
    }

    /// Replaces `lines` by the documents of request number `k`, one per line; returns their number. The last request of
    /// a pass over the corpus may have fewer than `size`.
    pub fn documents(&self, k: u64, lines: &mut Vec<u8>) -> u64 {
        lines.clear();
        self.corpus.append(k % self.requests().max(1) * self.size, self.size, b"", lines)
    }

    /// Iterates over the non-empty `lines`, each with its position from 0. `only` selects positions; it must be
    /// ascending.
    pub fn chosen<'a>(lines: &'a [u8], only: Option<&'a [u32]>) -> impl Iterator<Item = (u64, &'a [u8])> {
        let documents = (0..).zip(lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()));
        documents.filter(move |(place, _)| only.is_none_or(|only| only.binary_search(&(*place as u32)).is_ok()))
    }
}

impl Neutral {
    /// Returns the template of the document id; `None` for scans and bulk requests.
    pub fn id(&self) -> Option<&Template> {
        match self {
            Self::Insert(write) | Self::Update(write) | Self::Upsert(write) | Self::ReadModifyWrite(write) => {
                Some(&write.key.id)
            }
            Self::Read(read) => Some(&read.key.id),
            Self::Delete(key) => Some(&key.id),
            Self::Scan(_) | Self::Bulk(_) => None,
        }
    }

    /// Reads the verb `name` with its `argument`, a mapping; returns `None` if `name` is not a verb. Refuses unknown
    /// keys, wrong types, and unknown variables and corpora.
    pub fn map(name: &str, argument: &Value, context: &Context) -> Option<Result<Self, PlanError>> {
        let mapped = match name {
            "insert" => Write::map(argument, context).map(Self::Insert),
            "read" => Read::map(argument, context).map(Self::Read),
            "update" => Write::map(argument, context).map(Self::Update),
            "upsert" => Write::map(argument, context).map(Self::Upsert),
            "delete" => Form::new(argument, &["collection", "id"])
                .and_then(|form| Key::map(&form, "id", &context.variables))
                .map(Self::Delete),
            "scan" => Scan::map(argument, context).map(Self::Scan),
            "read_modify_write" => Write::map(argument, context).map(Self::ReadModifyWrite),
            "bulk" => Bulk::map(argument, context).map(Self::Bulk),
            _ => return None,
        };
        Some(mapped.map_err(|error| error.within(name)))
    }

    /// Returns the name of the collection.
    pub fn collection(&self) -> &str {
        match self {
            Self::Insert(write) | Self::Update(write) | Self::Upsert(write) | Self::ReadModifyWrite(write) => {
                &write.key.collection
            }
            Self::Read(read) => &read.key.collection,
            Self::Delete(key) => &key.collection,
            Self::Scan(scan) => &scan.from.collection,
            Self::Bulk(bulk) => &bulk.collection,
        }
    }
}

impl Neutral {
    /// Returns the names of the request's parts, as for [`Driver::parts`](loadframe_engine::driver::Driver::parts).
    pub fn parts(&self) -> &'static [&'static str] {
        if matches!(self, Self::ReadModifyWrite(_)) { &PARTS } else { &[] }
    }

    /// Returns the number of requests that send each document of the corpus once; `None` without a corpus.
    pub fn requests(&self) -> Option<u64> {
        if let Self::Bulk(bulk) = self { Some(bulk.requests()) } else { None }
    }

    /// Returns whether it is a read, a read_modify_write or a scan, whose answers contain documents.
    pub fn reads(&self) -> bool {
        matches!(self, Self::Read(_) | Self::ReadModifyWrite(_) | Self::Scan(_))
    }
}

impl Key {
    /// Reads the collection, and the document id at the key `id` of the form: a non-empty text or a number. Refuses
    /// others.
    fn map(form: &Form, id: &str, variables: &Variables) -> Result<Self, PlanError> {
        let text = match form.require(id)? {
            Value::String(text) if !text.is_empty() => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(PlanError::new(format!("\"{id}\" wants a text or a number, not {other}"))),
        };
        let mut template = Template::default();
        template.push_verbatim(&text, variables)?;
        Ok(Self { collection: form.text("collection")?.to_owned(), id: template })
    }
}

impl Read {
    /// Reads `{"collection": "c", "id": "1", "fields": ["a", "b"]}`. Refuses unknown keys, wrong types and unknown
    /// variables.
    fn map(argument: &Value, context: &Context) -> Result<Self, PlanError> {
        let form = Form::new(argument, &["collection", "id", "fields"])?;
        let wrong = |value: &Value| PlanError::new(format!("\"fields\" wants a list of names, not {value}"));
        let name = |value: &Value| {
            let mut template = Template::default();
            template.push_verbatim(value.as_str().ok_or_else(|| wrong(value))?, &context.variables)?;
            Ok(template)
        };
        let fields = match form.get("fields") {
            None => Vec::new(),
            Some(value) => value.as_array().ok_or_else(|| wrong(value))?.iter().map(name).collect::<Result<_, _>>()?,
        };
        Ok(Self { key: Key::map(&form, "id", &context.variables)?, fields })
    }
}

impl Write {
    /// Reads `{"collection": "c", "id": "1", "document": {...}}`. Refuses unknown keys, wrong types and unknown
    /// variables.
    fn map(argument: &Value, context: &Context) -> Result<Self, PlanError> {
        let form = Form::new(argument, &["collection", "id", "document"])?;
        let document = form.mapping("document")?;
        let field = |(name, value): (&String, &Value)| {
            let mut template = Template::default();
            template.push_verbatim(name, &context.variables)?;
            Ok((template, Cell::new(value, &context.variables)?))
        };
        Ok(Self {
            key: Key::map(&form, "id", &context.variables)?,
            document: document.as_object().into_iter().flatten().map(field).collect::<Result<_, _>>()?,
            json: Template::json(document, &context.variables)?,
        })
    }
}

impl Scan {
    /// Reads `{"collection": "c", "from": "1", "count": 10, "by": "field"}`. Refuses a count of 0.
    fn map(argument: &Value, context: &Context) -> Result<Self, PlanError> {
        let form = Form::new(argument, &["collection", "from", "count", "by"])?;
        let count = match form.require("count")? {
            value if value.is_string() || value.as_u64().is_some_and(|count| count > 0) => value,
            other => return Err(PlanError::new(format!("\"count\" wants a whole number above 0, not {other}"))),
        };
        Ok(Self {
            from: Key::map(&form, "from", &context.variables)?,
            count: Cell::new(count, &context.variables)?,
            by: form.get("by").map(|_| form.text("by").map(str::to_owned)).transpose()?,
        })
    }
}

impl Bulk {
    /// Reads `{"collection": "c", "corpus": "name", "size": 100, "action": "index", "id": "field"}`.
    /// The default action is `index`. Refuses a size of 0, an unknown corpus, and without `id` a corpus with ids in its
    /// action lines.
    fn map(argument: &Value, context: &Context) -> Result<Self, PlanError> {
        let form = Form::new(argument, &["collection", "corpus", "size", "action", "id"])?;
        let corpus = context.corpora.get(form.text("corpus")?)?;
        if form.get("id").is_none() {
            refuse_action_ids(
                &corpus,
                "this store's driver does not take them; name the field that has them by \"id\"",
            )?;
        }
        Ok(Self {
            collection: form.text("collection")?.to_owned(),
            corpus,
            size: form.count("size")?,
            action: form.get("action").map_or(Ok(Action::Index), |_| Action::parse(form.text("action")?))?,
            id: form.get("id").map(|_| form.text("id").map(str::to_owned)).transpose()?,
        })
    }
}

/// Refuses a corpus whose first action line has `_id` or `routing`, or cannot be read. `why`, the reason and the
/// remedy, ends the message.
pub fn refuse_action_ids(corpus: &Corpus, why: &str) -> Result<(), PlanError> {
    let Some(action) = first_action(corpus)? else { return Ok(()) };
    let said = |key: &&str| action.values().any(|meta| meta.get(key).is_some());
    match ["_id", "routing"].iter().find(|key| said(key)) {
        Some(key) => Err(PlanError::new(format!("the corpus's action lines have {key:?}: {why}"))),
        None => Ok(()),
    }
}

/// Returns the action and the metadata of the corpus's first action line; `None` if there is none. Fails if the line
/// cannot be read.
pub fn first_action(corpus: &Corpus) -> Result<Option<Map<String, Value>>, PlanError> {
    let mut first = Vec::new();
    corpus.append_actions(0, 1, &mut first);
    if first.is_empty() {
        return Ok(None);
    }
    let refuse = |why: String| {
        let remedy = "expected a line such as {\"index\": {\"_id\": \"1\"}}";
        PlanError::new(format!("the corpus's first action line cannot be read: {why}; {remedy}"))
    };
    let action: Value = serde_json::from_slice(&first).map_err(|error| refuse(format!("it is not JSON: {error}")))?;
    match action {
        Value::Object(action) if !action.is_empty() && action.values().all(Value::is_object) => Ok(Some(action)),
        other => Err(refuse(format!("it is {other}"))),
    }
}

/// A value drawn for each request.
#[derive(Clone, Debug)]
pub struct Cell(Template);

impl Cell {
    /// Reads the value from a form, in which `${...}` stands for variables. Refuses unknown variables.
    pub fn new(value: &Value, variables: &Variables) -> Result<Self, PlanError> {
        Template::json(value, variables).map(Self)
    }

    /// Appends this request's value to `buffer`, as JSON.
    pub fn json(&self, values: &Values, buffer: &mut Vec<u8>) {
        self.0.render(values, buffer);
    }

    /// Returns this request's value, whose bytes replace those in `buffer`. `None` if it is not JSON; every variable
    /// yields JSON.
    pub fn scalar<'a>(&self, values: &Values, buffer: &'a mut Vec<u8>) -> Option<Scalar<'a>> {
        buffer.clear();
        self.json(values, buffer);
        Scalar::parse(buffer)
    }
}

/// A typed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// None.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number with a fraction, or outside the range of an i64.
    Float(f64),
    /// A string.
    Text(Cow<'a, str>),
    /// An array or an object, as JSON.
    Json(&'a [u8]),
}

impl<'a> Scalar<'a> {
    /// Reads one JSON value without spaces around it; `None` for no bytes, and if a string or number is malformed.
    /// Recognises `null`, `true` and `false` by their first letter. Does not check arrays and objects.
    pub fn parse(json: &'a [u8]) -> Option<Self> {
        Some(match json.first()? {
            b'n' => Self::Null,
            b't' => Self::Bool(true),
            b'f' => Self::Bool(false),
            b'"' => Self::Text(match Cursor::new(json).string().ok()? {
                Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
            }),
            b'{' | b'[' => Self::Json(json),
            _ => {
                let text = std::str::from_utf8(json).ok()?;
                match text.parse() {
                    Ok(whole) => Self::Int(whole),
                    Err(_) => Self::Float(text.parse().ok()?),
                }
            }
        })
    }
}

/// Calls `field` with name and value of each field of a document, given as one JSON object. Stops at the first error,
/// of the JSON or of `field`.
pub fn fields<'a>(
    document: &'a [u8],
    mut field: impl FnMut(&[u8], Scalar<'a>) -> Result<(), Unexpected>,
) -> Result<(), Unexpected> {
    Cursor::new(document).object(|name, cursor| {
        let value = cursor.value()?;
        field(name, Scalar::parse(value).ok_or(Unexpected)?).map(|()| true)
    })
}

#[cfg(test)]
mod tests {
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::Captured;
    use serde_json::json;

    use super::*;

    /// Returns a context with the variables `n`, `x` and `t`: 7, 0.5 and a text with a quotation mark.
    fn context() -> Context {
        let forms = json!({"n": {"constant": 7}, "x": {"constant": 0.5}, "t": {"constant": "a\"b"}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        Context { variables, corpora: Corpora::default() }
    }

    #[test]
    fn a_drawn_value_keeps_its_type() {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let argument = json!({"collection": "c", "id": "user${n}", "document":
            {"f${n}": "${n}", "x": "${x}", "t": "${t}", "s": "no ${n}", "b": true, "z": null, "l": [1]}});
        let Ok(Neutral::Upsert(write)) = Neutral::map("upsert", &argument, &context).unwrap() else { panic!() };
        let mut text = Vec::new();
        write.key.id.render(&values, &mut text);
        assert_eq!(text, b"user7");
        let mut buffer = Vec::new();
        let drawn = |cell: &Cell, buffer: &mut Vec<u8>| format!("{:?}", cell.scalar(&values, buffer).unwrap());
        let all: Vec<_> = write.document.iter().map(|(_, cell)| drawn(cell, &mut buffer)).collect();
        let json = format!("Json({:?})", b"[1]");
        assert_eq!(all, ["Int(7)", "Float(0.5)", r#"Text("a\"b")"#, r#"Text("no 7")"#, "Bool(true)", "Null", &json]);
        let mut name = Vec::new();
        write.document[0].0.render(&values, &mut name);
        assert_eq!(name, b"f7");
    }

    #[test]
    fn a_bad_verb_is_refused_with_its_name_and_the_nearest_word() {
        let error =
            |verb: &str, argument: Value| Neutral::map(verb, &argument, &context()).unwrap().unwrap_err().message;
        assert_eq!(error("read", json!({"collection": "c"})), "read: \"id\" is missing");
        assert_eq!(
            error("delete", json!({"collection": "c", "id": 1, "document": {}})),
            "delete: unknown key \"document\"; there are collection, id"
        );
        assert!(error("scan", json!({"collection": "c", "from": "a", "count": 0})).contains("above 0"));
        assert!(error("upsert", json!({"collection": "c", "id": "${m}", "document": {}})).contains("variable"));
        assert!(Neutral::map("search", &json!({}), &context()).is_none());
    }

    #[test]
    fn the_fields_of_a_document_come_in_their_types() {
        let mut seen = Vec::new();
        let document = br#"{"a": 1, "b": -2.5, "c": "d\u00e9", "e": {"f": [1, 2]}, "g": 1e3}"#;
        fields(document, |name, value| {
            seen.push(format!("{} {value:?}", String::from_utf8_lossy(name)));
            Ok(())
        })
        .unwrap();
        let json = format!("e Json({:?})", br#"{"f": [1, 2]}"#);
        assert_eq!(seen, ["a Int(1)", "b Float(-2.5)", "c Text(\"dé\")", &json, "g Float(1000.0)"]);
        assert!(fields(b"[1]", |_, _| Ok(())).is_err());
    }
}
