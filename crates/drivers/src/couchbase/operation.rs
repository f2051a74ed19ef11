//! Operations, parsed once, and their requests.

use std::sync::Arc;
use std::time::Duration;

use loadframe_engine::driver::{Context, Failure};
use loadframe_engine::plan::PlanError;
use loadframe_engine::util::suggestions::unknown;
use loadframe_engine::workload::variables::Values;
use loadframe_engine::workload::variables::template::Template;
use serde_json::{Map, Value, json};

use super::answer::client;
use super::nodes::{Bucket, CouchbaseNodes};
use super::packet::{KEY_LIMIT, Opcode, Packet};
use super::subdoc;
use super::subdoc::{FIELDS, MAKE};
use crate::assertion::Assertion;
use crate::capture::{Captures, Place};
use crate::crud::{Action, Key, Neutral, Read, Scalar, Scan, VERBS, Write};
use crate::form;
use crate::form::Form;
use crate::timeout;

/// Options of an operation besides its kind.
const OPTIONS: [&str; 4] = ["timeout", "durability", "assert", "capture"];

/// Durability levels and their protocol numbers.
const DURABILITIES: [(&str, Option<u8>); 4] =
    [("none", None), ("majority", Some(1)), ("majority_and_persist_active", Some(2)), ("persist_to_majority", Some(3))];

/// Flags of a JSON document: the common flags of current clients, and the legacy flags.
const JSON: u32 = 0x0200_0006;

/// A parsed operation, ready to build requests.
#[derive(Debug)]
pub struct Operation {
    /// The kind of operation.
    pub kind: Kind,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// Durability level of writes.
    pub durability: Option<u8>,
    /// Assertion on the answer.
    pub assertion: Option<Assertion>,
    /// Values captured from the first document of the answer.
    pub captures: Captures<Place>,
}

/// The kind of an operation.
#[derive(Debug)]
pub enum Kind {
    /// A verb and its bucket.
    Neutral(Neutral, Arc<Bucket>),
    /// The body template of a statement's request.
    Query(Template),
}

impl Operation {
    /// Parses `{"read": {...}, "timeout": 5}` or `{"query": {...}}`, and registers the bucket.
    /// Refuses unknown kinds and keys, more than 16 fields, an invalid id, and assertions or captures on a verb that
    /// reads no document.
    pub fn map(form: &Value, context: &Context, nodes: &CouchbaseNodes) -> Result<Self, PlanError> {
        let kinds: Vec<_> = VERBS.into_iter().chain(["query"]).collect();
        let (name, argument) = form::kind(form, &kinds, &OPTIONS)?;
        let timeout = timeout::of_operation(form, nodes.connect_options.timeout)?;
        let kind = if name == "query" {
            Kind::Query(query(argument, context).map_err(|error| error.within(name))?)
        } else {
            let neutral = Neutral::map(name, argument, context);
            let neutral =
                neutral.ok_or_else(|| PlanError::new(unknown("operation", name, kinds.iter().copied())))??;
            require_few_fields(&neutral)?;
            if let Some(wrong) = neutral.id().and_then(Template::fixed).and_then(misnamed) {
                return Err(PlanError::new(wrong).within(name));
            }
            let bucket = nodes.bucket(neutral.collection())?;
            Kind::Neutral(neutral, bucket)
        };
        let durability = form.get("durability").filter(|given| !given.is_null()).map(durability).transpose()?.flatten();
        let assertion = form.get("assert").filter(|assert| !assert.is_null());
        let assertion =
            assertion.map(|assert| Assertion::map_without_recall(assert, &context.variables)).transpose()?;
        if assertion.is_some() && matches!(&kind, Kind::Neutral(neutral, _) if !neutral.reads()) {
            return Err(PlanError::new(format!("{name:?} answers with nothing that such an assertion could be about")));
        }
        let reads = !matches!(&kind, Kind::Neutral(neutral, _) if !neutral.reads());
        let captures = Captures::of_documents(form, reads, &context.variables)?;
        Ok(Self { kind, timeout, durability, assertion, captures })
    }
}

/// Parses a durability level. Returns its protocol number, `None` for the level "none". Refuses other names.
fn durability(value: &Value) -> Result<Option<u8>, PlanError> {
    let name = value.as_str().ok_or_else(|| PlanError::new(format!("\"durability\" wants a name, not {value}")))?;
    let names = DURABILITIES.iter().map(|(known, _)| *known);
    let level = DURABILITIES.iter().find(|(known, _)| *known == name);
    level.map(|(_, number)| *number).ok_or_else(|| PlanError::new(unknown("durability", name, names)))
}

/// Refuses a verb that reads or changes more than 16 fields, the maximum of one request.
fn require_few_fields(neutral: &Neutral) -> Result<(), PlanError> {
    let fields = match neutral {
        Neutral::Update(write) | Neutral::Upsert(write) | Neutral::ReadModifyWrite(write) => write.document.len(),
        Neutral::Read(read) => read.fields.len(),
        _ => 0,
    };
    let too_many =
        || PlanError::new(format!("{fields} fields: the store reads or changes at most {FIELDS} in one request"));
    if fields > FIELDS { Err(too_many()) } else { Ok(()) }
}

/// Returns the reason why a document id is invalid: it is empty or longer than 250 bytes. `None` if it is valid.
pub fn misnamed(id: &[u8]) -> Option<&'static str> {
    match id.len() {
        0 => Some("an id is empty"),
        1..=KEY_LIMIT => None,
        _ => Some("an id is longer than 250 bytes, the most that Couchbase takes"),
    }
}

/// Returns the template of the JSON request body, from `{"statement": "...", "parameters": [...]}`, or with a mapping
/// of named parameters. Refuses unknown keys and wrong types.
fn query(argument: &Value, context: &Context) -> Result<Template, PlanError> {
    let form = Form::new(argument, &["statement", "parameters"])?;
    let mut body = Map::new();
    body.insert("statement".to_owned(), form.text("statement")?.into());
    match form.get("parameters") {
        None => {}
        Some(Value::Array(list)) => {
            body.insert("args".to_owned(), list.clone().into());
        }
        Some(Value::Object(named)) => {
            body.extend(
                named.iter().map(|(name, value)| (format!("${}", name.trim_start_matches('$')), value.clone())),
            );
        }
        Some(other) => return Err(PlanError::new(format!("\"parameters\" wants a list or a mapping, not {other}"))),
    }
    Template::json(&Value::Object(body), &context.variables)
}

/// Buffers reused for all requests of a client.
#[derive(Debug, Default)]
pub struct Buffers {
    /// The request.
    pub request: Vec<u8>,
    key: Vec<u8>,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Buffers {
    /// Renders a document id into the buffer `key`.
    fn key(&mut self, key: &Key, values: &Values) {
        self.key.clear();
        key.id.render(values, &mut self.key);
    }

    /// Returns the failure of the last request if its document id is empty or too long; `None` if the id is valid.
    pub fn refusal(&self) -> Option<Failure> {
        misnamed(&self.key).map(client)
    }

    /// Replaces `request` by a verb's first request and returns its vbucket. Returns `None` for scans and bulk
    /// requests.
    pub fn verb(&mut self, neutral: &Neutral, bucket: &Bucket, durability: Option<u8>, values: &Values) -> Option<u16> {
        self.request.clear();
        Some(match neutral {
            Neutral::Insert(write) => self.insert(write, bucket, durability, values),
            Neutral::Update(write) => self.change(Action::Update, write, bucket, durability, values),
            Neutral::Upsert(write) => self.change(Action::Upsert, write, bucket, durability, values),
            Neutral::Read(read) => self.read(read, bucket, values),
            Neutral::ReadModifyWrite(write) => self.get(&write.key, bucket, values),
            Neutral::Delete(key) => {
                self.key(key, values);
                let vbucket = bucket.vbuckets.of(&self.key);
                let packet = Packet::begin(&mut self.request, Opcode::Delete, vbucket, durability, &[], &self.key);
                packet.end(&mut self.request);
                vbucket
            }
            Neutral::Scan(_) | Neutral::Bulk(_) => return None,
        })
    }

    /// Appends the request that adds a document with a drawn id, and returns its vbucket.
    /// `durability` is the level's protocol number; `None` requests no durability.
    fn insert(&mut self, write: &Write, bucket: &Bucket, durability: Option<u8>, values: &Values) -> u16 {
        self.key(&write.key, values);
        let vbucket = bucket.vbuckets.of(&self.key);
        let packet = Packet::begin(&mut self.request, Opcode::Add, vbucket, durability, &stored(), &self.key);
        write.json.render(values, &mut self.request);
        packet.end(&mut self.request);
        vbucket
    }

    /// Appends the request for a whole document with a drawn id, and returns its vbucket.
    fn get(&mut self, key: &Key, bucket: &Bucket, values: &Values) -> u16 {
        self.key(key, values);
        let vbucket = bucket.vbuckets.of(&self.key);
        Packet::begin(&mut self.request, Opcode::Get, vbucket, None, &[], &self.key).end(&mut self.request);
        vbucket
    }

    /// Appends the request for the fields of a read, or for the whole document, and returns its vbucket.
    fn read(&mut self, read: &Read, bucket: &Bucket, values: &Values) -> u16 {
        if read.fields.is_empty() {
            return self.get(&read.key, bucket, values);
        }
        self.key(&read.key, values);
        let vbucket = bucket.vbuckets.of(&self.key);
        let packet = Packet::begin(&mut self.request, Opcode::LookUp, vbucket, None, &[], &self.key);
        read.names(values).iter().for_each(|field| subdoc::get(&mut self.request, field.as_bytes()));
        packet.end(&mut self.request);
        vbucket
    }

    /// Replaces `request` by the change of some fields of a document, and returns its vbucket. With [`Action::Upsert`],
    /// it creates a missing document. `durability` is the level's protocol number.
    pub fn change(
        &mut self,
        action: Action,
        write: &Write,
        bucket: &Bucket,
        durability: Option<u8>,
        values: &Values,
    ) -> u16 {
        self.request.clear();
        self.key(&write.key, values);
        let Self { request, key, name, value } = self;
        let vbucket = bucket.vbuckets.of(key);
        let packet = Packet::begin(request, Opcode::Mutate, vbucket, durability, changed(action), key);
        for (field, cell) in &write.document {
            name.clear();
            value.clear();
            field.render(values, name);
            cell.json(values, value);
            subdoc::put(request, name, value);
        }
        packet.end(request);
        vbucket
    }

    /// Replaces `request` by the JSON body of a scan's statement. A count that is not an integer counts as 0.
    pub fn scan(&mut self, scan: &Scan, values: &Values) {
        self.request.clear();
        self.key(&scan.from, values);
        let count = match scan.count.scalar(values, &mut self.value) {
            Some(Scalar::Int(count)) => count,
            _ => 0,
        };
        let from = String::from_utf8_lossy(&self.key);
        let statement = format!(
            "SELECT RAW d FROM `{}` AS d WHERE META(d).id >= $1 ORDER BY META(d).id LIMIT $2",
            scan.from.collection
        );
        let body = json!({"statement": statement, "args": [from, count], "readonly": true});
        self.request.extend_from_slice(body.to_string().as_bytes());
    }
}

/// Returns the extras of a full document write: the flags of JSON, and no expiry.
pub fn stored() -> [u8; 8] {
    let mut extras = [0; 8];
    extras[..4].copy_from_slice(&JSON.to_be_bytes());
    extras
}

/// Returns the extras of a change of some fields: for [`Action::Upsert`], the flag to create a missing document.
/// Other actions have none.
pub fn changed(action: Action) -> &'static [u8] {
    if action == Action::Upsert { &[MAKE] } else { &[] }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loadframe_engine::driver::ErrorClass;
    use loadframe_engine::plan::Target;
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::corpus::Corpora;
    use loadframe_engine::workload::variables::{Captured, Variables};

    use super::super::answer::judge;
    use super::super::connection::ConnectOptions;
    use super::super::packet::{Response, read_request};
    use super::super::statement;
    use super::super::subdoc::SOME_FAILED;
    use super::*;
    use crate::capture::Memory;
    use crate::net::topology::Topology;

    /// Returns the state of a target without any contact to it.
    fn nodes() -> CouchbaseNodes {
        let target: Target = serde_json::from_value(json!({"driver": "couchbase", "hosts": ["127.0.0.1:1"]})).unwrap();
        let topology = Topology::new(&target.hosts, target.spread, None).unwrap();
        CouchbaseNodes::new(Arc::new(topology), ConnectOptions::new(&target).unwrap())
    }

    /// Returns a context with the variable `n`, 7.
    fn context() -> Context {
        let forms = json!({"n": {"constant": 7}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        Context { variables, corpora: Corpora::default() }
    }

    /// Returns the message that refuses an operation.
    fn error(form: Value) -> String {
        Operation::map(&form, &context(), &nodes()).unwrap_err().message
    }

    /// Returns the opcode, key and value of a verb's first request.
    fn request(form: Value) -> (u8, String, String) {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let operation = Operation::map(&form, &context, &nodes()).unwrap();
        let Kind::Neutral(neutral, bucket) = &operation.kind else { panic!() };
        let mut buffers = Buffers::default();
        buffers.verb(neutral, bucket, operation.durability, &values).unwrap();
        let (opcode, _, key, value) = read_request(&buffers.request).unwrap();
        (opcode, String::from_utf8_lossy(key).into_owned(), String::from_utf8_lossy(value).into_owned())
    }

    #[test]
    fn verbs_become_requests_for_one_document() {
        let key = json!({"collection": "c", "id": "user${n}"});
        let with = |document: Value| json!({"collection": "c", "id": "user${n}", "document": document});
        let user = || "user7".to_owned();
        let added = request(json!({"insert": with(json!({"n": "${n}"})), "durability": "majority"}));
        assert_eq!(added, (0x02, user(), "{\"n\":7}".to_owned()));
        assert_eq!(request(json!({"read": key})), (0x00, user(), String::new()));
        assert_eq!(request(json!({"delete": key})), (0x04, user(), String::new()));
        let changed = request(json!({"update": with(json!({"n": "${n}"}))}));
        assert_eq!(changed, (0xd1, user(), "\u{fffd}\0\0\u{1}\0\0\0\u{1}n7".to_owned()));
        assert_eq!(request(json!({"read_modify_write": with(json!({"n": 1}))})).0, 0x00);
    }

    #[test]
    fn an_id_that_is_drawn_too_long_is_refused_and_not_cut() {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        for (length, refused) in [(249, false), (250, true)] {
            let id = format!("{}${{n}}", "a".repeat(length));
            let form = json!({"read_modify_write": {"collection": "c", "id": id, "document": {"a": 1}}});
            let operation = Operation::map(&form, &context, &nodes()).unwrap();
            let Kind::Neutral(neutral, bucket) = &operation.kind else { panic!() };
            let mut buffers = Buffers::default();
            buffers.verb(neutral, bucket, None, &values).unwrap();
            let failure = buffers.refusal();
            assert_eq!(failure.is_some(), refused, "{length}");
            if let Some(failure) = failure {
                assert_eq!(failure.class, ErrorClass::Client);
                assert!(failure.message.contains("longer than 250 bytes"));
            }
        }
    }

    #[test]
    fn a_field_that_cannot_be_read_is_a_failure_and_a_missing_one_is_not() {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let form = json!({"read": {"collection": "c", "id": "a", "fields": ["age", "name"]}});
        let operation = Operation::map(&form, &context, &nodes()).unwrap();
        let Kind::Neutral(neutral, _) = &operation.kind else { panic!() };
        let judged = |status| {
            let value = [0, 0, 0, 0, 0, 1, b'7', 0, status, 0, 0, 0, 0];
            let answer = Response { status: SOME_FAILED, value: &value };
            judge(neutral, &answer, (None, &operation.captures), &values, &mut Memory::default())
        };
        assert_eq!(judged(0xc0).unwrap(), 1, "the document lacks the field");
        for (status, message) in [(0xc1, "a field's place is not a mapping"), (0xc6, "the document is not JSON")] {
            let failure = judged(status).unwrap_err();
            assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Client, message));
        }
    }

    #[test]
    fn a_statements_parameters_are_by_place_or_by_name() {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        for (parameters, body) in [
            (json!(["${n}"]), r#"{"statement":"SELECT $1","args":[7]}"#),
            (json!({"who": "u${n}"}), r#"{"statement":"SELECT $1","$who":"u7"}"#),
        ] {
            let form = json!({"query": {"statement": "SELECT $1", "parameters": parameters}});
            let Kind::Query(template) = Operation::map(&form, &context, &nodes()).unwrap().kind else { panic!() };
            let mut rendered = Vec::new();
            template.render(&values, &mut rendered);
            assert_eq!(String::from_utf8(rendered).unwrap(), body);
        }
    }

    #[test]
    fn errors_in_the_answer_to_a_statement_are_failures_also_if_they_cannot_be_read() {
        let (context, draw) = (context(), Draw::new(1, 2, 3));
        let values = Values { variables: &context.variables, draw: &draw, captured: &Captured::NONE };
        let operation = Operation::map(&json!({"query": {"statement": "SELECT 1"}}), &context, &nodes()).unwrap();
        let judged = |errors: &str| {
            let body = format!("{{\"results\": [1, 2], \"errors\": {errors}}}");
            statement::judge(&operation, (200, body.as_bytes()), &values, &mut Memory::default())
        };
        assert_eq!([judged("[]").unwrap(), judged("null").unwrap()], [2, 2]);
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (errors, class, message) in [
            ("[{\"code\": 5000, \"msg\": \"lost\"}, {\"code\": 1080}]", ErrorClass::Server, "lost"),
            ("[{\"code\": \"5000\", \"msg\": \"lost\"}]", ErrorClass::Client, "lost"),
            ("[{\"code\": 1080, \"msg\": null}]", ErrorClass::Timeout, "{\"code\":1080,\"msg\":null}"),
            ("[\"lost\"]", ErrorClass::Client, "\"lost\""),
            ("{\"code\": 5000}", ErrorClass::Client, "an answer with errors that cannot be read: {\"results\": [1, 2]"),
            ("[lost]", ErrorClass::Client, "an answer with errors that cannot be read"),
            (&deep, ErrorClass::Client, "an answer with errors that cannot be read"),
        ] {
            let failure = judged(errors).unwrap_err();
            assert_eq!(failure.class, class, "{errors}");
            assert!(failure.message.starts_with(message), "{errors}: {}", failure.message);
        }
    }

    #[test]
    fn unsupported_operations_are_refused_before_the_load() {
        let fields: Vec<String> = (0..17).map(|n| format!("f{n}")).collect();
        let many = json!({"read": {"collection": "c", "id": "a", "fields": fields}});
        assert!(error(many).contains("at most 16"));
        let read = json!({"collection": "c", "id": "a"});
        assert!(error(json!({"read": read, "durability": "mayority"})).contains("did you mean \"majority\"?"));
        assert!(error(json!({"delete": read, "assert": {"hits": 1}})).contains("answers with nothing"));
        assert!(error(json!({"read": {"collection": "a b", "id": "a"}})).contains("not a valid bucket name"));
        let long = "é".repeat(126);
        for verb in ["read", "delete"] {
            let refused = error(json!({verb: {"collection": "c", "id": long}}));
            assert_eq!(refused, format!("{verb}: an id is longer than 250 bytes, the most that Couchbase takes"));
        }
        let fits = json!({"read": {"collection": "c", "id": "a".repeat(250)}});
        assert!(Operation::map(&fits, &context(), &nodes()).is_ok());
        assert!(error(json!({"query": {"statement": "SELECT 1", "parameters": 1}})).contains("a list or a mapping"));
    }
}
