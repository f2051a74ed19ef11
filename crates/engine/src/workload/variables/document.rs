//! Whole documents of a corpus, such as the parameters of a request, and values inside them.
//!
//! Files are mapped, so that documents may exceed memory. A value is found by skipping the rest of its
//! document.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::Encoding;
use super::encoded::Encoded;
use super::form::Form;
use super::whole::below;
use crate::plan::PlanError;
use crate::util::draw::Draw;
use crate::workload::corpus::{Corpora, Corpus};

/// Documents of a corpus, and how a request selects one.
#[derive(Clone, Debug)]
pub struct Documents {
    corpus: Arc<Corpus>,
    sequential: bool,
}

impl Documents {
    /// Creates a variable from `{corpus: name, order: random | sequential}`. Request k takes a random
    /// document, or document k. Refuses an unknown or empty corpus.
    pub fn new(argument: &Value, corpora: &Corpora) -> Result<Self, PlanError> {
        let form = Form::new("document", argument, &["corpus", "order"])?;
        let corpus = corpora.get(form.text("corpus")?)?;
        if corpus.documents() == 0 {
            return Err(PlanError::new(format!("the corpus {:?} is empty", form.text("corpus")?)));
        }
        Ok(Self { corpus, sequential: form.word("order", &["random", "sequential"])? == "sequential" })
    }

    /// Returns whether request k takes document k.
    pub fn is_sequential(&self) -> bool {
        self.sequential
    }

    /// Appends the document that request `draw` selects, as stored in its corpus, without a line end. `salt` separates
    /// the draw from the request's others.
    pub fn append(&self, draw: &Draw, salt: u64, out: &mut Vec<u8>) {
        let documents = self.corpus.documents();
        let number = if self.sequential { draw.k % documents } else { below(documents - 1, draw, salt) };
        self.append_number(number, out);
    }

    /// Appends document `number`, as stored in its corpus, without a line end.
    fn append_number(&self, number: u64, out: &mut Vec<u8>) {
        self.corpus.append(number, 1, b"", out);
        // The corpus appends a line end.
        out.truncate(out.len() - usize::from(out.last() == Some(&b'\n')));
    }

    /// Appends the document that request `draw` selects, in an encoding. `salt` separates the draw from the request's
    /// others.
    pub fn write(&self, draw: &Draw, salt: u64, encoding: Encoding, out: &mut Vec<u8>) {
        let start = out.len();
        self.append(draw, salt, out);
        encode(start, encoding, out);
    }
}

/// A value inside a document.
#[derive(Clone, Debug)]
pub struct DocumentPart {
    /// Names of members and indices of elements, from the outermost.
    path: Vec<String>,
    /// Default for documents without the value.
    otherwise: Option<Encoded>,
}

impl DocumentPart {
    /// Parses `{of: name, field: a.b, otherwise: 0}`, except `of`; refuses a field that is not a text.
    pub fn new(form: &Form<'_>) -> Result<Self, PlanError> {
        let path = form.text("field")?.split('.').map(str::to_owned).collect();
        Ok(Self { path, otherwise: form.present("otherwise").map(Encoded::new) })
    }

    /// Refuses a field that the first document lacks, unless there is a default.
    pub fn check(&self, documents: &Documents) -> Result<(), PlanError> {
        let mut first = Vec::new();
        documents.append_number(0, &mut first);
        if self.otherwise.is_none() && self.find(&first).is_none() {
            let field = self.path.join(".");
            return Err(PlanError::new(format!(
                "the corpus's first document lacks the field {field:?}; give a default with otherwise"
            )));
        }
        Ok(())
    }

    /// Appends the value from the document that `draw` selects, in an encoding.
    /// Appends the default if the document lacks the value, and null without a default. `salt` separates the draw from
    /// the request's others.
    pub fn write(&self, documents: &Documents, draw: &Draw, salt: u64, encoding: Encoding, out: &mut Vec<u8>) {
        let start = out.len();
        documents.append(draw, salt, out);
        let Some(Range { start: from, end }) = self.find(&out[start..]) else {
            out.truncate(start);
            out.extend_from_slice(self.otherwise.as_ref().map_or(b"null".as_slice(), |value| value.encoded(encoding)));
            return;
        };
        out.copy_within(start + from..start + end, start);
        out.truncate(start + end - from);
        encode(start, encoding, out);
    }

    /// Returns the byte range of the value in a document; `None` if the document lacks it.
    fn find(&self, document: &[u8]) -> Option<Range<usize>> {
        let mut json = std::str::from_utf8(document).ok()?;
        for name in &self.path {
            let mut deserializer = serde_json::Deserializer::from_str(json);
            json = Member(name).deserialize(&mut deserializer).ok()??.get();
        }
        let start = json.as_ptr() as usize - document.as_ptr() as usize;
        Some(start..start + json.len())
    }
}

/// Replaces the JSON in `out` after `start` by the same value in an encoding; invalid JSON stays.
fn encode(start: usize, encoding: Encoding, out: &mut Vec<u8>) {
    if encoding == Encoding::Json {
        return;
    }
    let mut encoded = Encoded::default();
    if encoded.set_json(&out[start..]).is_ok() {
        out.truncate(start);
        out.extend_from_slice(encoded.encoded(encoding));
    }
}

/// Finds a member of an object or an element of an array.
struct Member<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    /// Finds the member of an object or the element of an array with this name, as its JSON text; `None` if it is
    /// missing. Fails for other values.
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    /// Writes the expected types, for the error message.
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    /// Returns the JSON of the first member with this name; `None` without one. Fails for invalid JSON.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut member = None;
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if member.is_none() && name == self.0 {
                member = Some(map.next_value::<&RawValue>()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(member)
    }

    /// Returns the JSON of the element with this index; `None` without one. Fails for invalid JSON.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let wanted: Option<usize> = self.0.parse().ok();
        let mut element = None;
        for index in 0.. {
            if Some(index) == wanted {
                element = list.next_element::<&RawValue>()?;
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(element)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{Captured, Values, Variables};
    use super::*;
    use crate::workload::corpus::folder::Folder;

    const LINES: &str = concat!(
        "{\"n\": 0, \"body\": {\"query\": {\"match\": {\"a.b\": \"x \\\"y\\\"\"}}}, \"list\": [1, [2, 3]]}\n",
        "{\"n\": 1, \"body\": {\"query\": null}, \"list\": []}\n",
        "{\"n\": 2, \"list\": [7]}\n",
    );

    /// Creates variables with these definitions, and `set`: the documents of a corpus in order.
    fn variables(folder: &Folder, forms: &Value) -> Result<Variables, PlanError> {
        let file = folder.file("sets.ndjson", LINES);
        let corpora = BTreeMap::from([("sets".to_owned(), json!({"files": [file.to_str()]}))]);
        let mut all = json!({"set": {"document": {"corpus": "sets", "order": "sequential"}}});
        for (name, form) in forms.as_object().unwrap() {
            all[name] = form.clone();
        }
        Variables::with_corpora(all.as_object().unwrap(), &Corpora::open(&corpora, 1).unwrap())
    }

    /// Returns the value of a variable in request `k`, in an encoding.
    fn written(variables: &Variables, name: &str, k: u64, encoding: Encoding) -> String {
        let draw = Draw::new(42, 1, k);
        let values = Values { variables, draw: &draw, captured: &Captured::NONE };
        let mut out = b"before ".to_vec();
        values.write(variables.find(name).unwrap(), encoding, &mut out);
        String::from_utf8(out).unwrap().strip_prefix("before ").unwrap().to_owned()
    }

    #[test]
    fn a_request_has_one_document_and_its_parts() {
        let folder = Folder::new("parts");
        let part = |field: &str| json!({"part": {"of": "set", "field": field}});
        let forms = json!({
            "n": part("n"), "query": part("body.query"), "text": part("body.query.match"), "second": part("list.1.0"),
            "missing": {"part": {"of": "set", "field": "body.size", "otherwise": 10}},
        });
        let variables = variables(&folder, &forms).unwrap();
        let line = |k: usize| LINES.lines().nth(k).unwrap().to_owned();
        assert_eq!(written(&variables, "set", 1, Encoding::Json), line(1));
        // The sequence restarts after the last document.
        assert_eq!(written(&variables, "set", 5, Encoding::Json), line(2));
        for k in 0..6 {
            assert_eq!(written(&variables, "n", k, Encoding::Json), (k % 3).to_string());
            assert_eq!(written(&variables, "missing", k, Encoding::Percent), "10");
        }
        assert_eq!(written(&variables, "query", 0, Encoding::Json), "{\"match\": {\"a.b\": \"x \\\"y\\\"\"}}");
        assert_eq!(written(&variables, "query", 1, Encoding::Json), "null");
        assert_eq!(written(&variables, "query", 2, Encoding::Json), "null", "a document without it");
        assert_eq!(written(&variables, "second", 0, Encoding::Text), "2");
        assert_eq!(
            written(&variables, "text", 0, Encoding::JsonText),
            "{\\\"a.b\\\": \\\"x \\\\\\\"y\\\\\\\"\\\"}",
            "inside a JSON text it is escaped"
        );
    }

    #[test]
    fn documents_are_drawn_from_all_of_the_corpus() {
        let folder = Folder::new("drawn");
        let forms = json!({"any": {"document": {"corpus": "sets"}}, "n": {"part": {"of": "any", "field": "n"}}});
        let variables = variables(&folder, &forms).unwrap();
        let mut counts = [0; 3];
        for k in 0..3000 {
            let n: usize = written(&variables, "n", k, Encoding::Json).parse().unwrap();
            assert_eq!(written(&variables, "any", k, Encoding::Json), LINES.lines().nth(n).unwrap());
            counts[n] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_part_that_is_not_there_is_refused() {
        let folder = Folder::new("refused");
        let error = |form: Value| variables(&folder, &json!({ "v": form })).unwrap_err().message;
        assert!(
            error(json!({"part": {"of": "set", "field": "bdy"}})).contains("first document lacks the field \"bdy\"")
        );
        assert!(error(json!({"part": {"of": "sets", "field": "n"}})).contains("did you mean \"set\"?"));
        assert!(error(json!({"document": {"corpus": "set"}})).contains("did you mean \"sets\"?"));
        let of_number = json!({"a": {"constant": 1}, "v": {"part": {"of": "a", "field": "n"}}});
        assert!(variables(&folder, &of_number).unwrap_err().message.contains("wants a variable that is a document"));
    }
}
