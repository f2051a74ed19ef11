//! Assertions of a workload on an operation's answer: hit counts, field values and recall.
//!
//! Each driver extracts documents from its own answers; this module compares them. It allocates memory only for
//! assertions on fields.

use loadframe_engine::driver::{ErrorClass, Failure, Recall};
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use crate::excerpt::excerpt;
use crate::form::Form;
use loadframe_engine::workload::json_pointer::Pointer;

/// The assertions of one operation.
#[derive(Debug, Default)]
pub struct Assertion {
    min_hits: Option<u64>,
    hits: Option<u64>,
    fields: Vec<Field>,
    recall: Option<Truth>,
}

/// The true nearest neighbours, against which recall is measured.
#[derive(Debug)]
struct Truth {
    /// A list of their ids, best first.
    of: Template,
    /// Number of documents compared, from the start of both lists.
    k: usize,
    /// The smallest accepted recall, 0 to 1.
    at_least: f64,
}

/// The expected value of a field.
#[derive(Debug)]
struct Field {
    /// The name as written; a dot separates nested fields.
    name: String,
    pointer: Pointer,
    value: Template,
}

impl Assertion {
    /// Reads `{"min_hits": 1, "hits": 1, "fields": {"a.b": value}, "recall": {...}}`. Refuses unknown keys and wrong
    /// types.
    pub fn map(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        Self::read(form, variables).map_err(|error| error.within("assert"))
    }

    /// Reads an assertion without `recall`, for an operation whose answers are not judged by it. Refuses `recall`,
    /// unknown keys and wrong types.
    pub fn map_without_recall(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let assertion = Self::map(form, variables)?;
        if assertion.has_recall() {
            return Err(PlanError::new("assert: only a search in one request has \"recall\"; remove \"recall\""));
        }
        Ok(assertion)
    }

    /// Reads the assertion for `map`, which adds the word `assert` to its errors.
    fn read(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let form = Form::new(form, &["min_hits", "hits", "fields", "recall"])?;
        let recall = form.get("recall").map(|recall| Truth::read(recall, variables)).transpose()?;
        let min_hits = form.get("min_hits").map(|_| form.count("min_hits")).transpose()?;
        let whole = |hits: &Value| {
            hits.as_u64().ok_or_else(|| PlanError::new(format!("\"hits\" wants a whole number, not {hits}")))
        };
        let hits = form.get("hits").map(whole).transpose()?;
        let mut fields = Vec::new();
        if form.get("fields").is_some() {
            for (name, value) in form.mapping("fields")?.as_object().into_iter().flatten() {
                fields.push(Field {
                    name: name.clone(),
                    pointer: Pointer::dotted(name)?,
                    value: Template::json(value, variables)?,
                });
            }
        }
        Ok(Self { min_hits, hits, fields, recall })
    }

    /// Returns whether it asserts the number of documents.
    pub fn counts(&self) -> bool {
        self.min_hits.is_some() || self.hits.is_some()
    }

    /// Returns whether it asserts field values.
    pub fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Returns whether judging needs the body of the answer: true for any assertion.
    pub fn reads_body(&self) -> bool {
        self.counts() || self.has_fields() || self.has_recall()
    }

    /// Returns whether it asserts recall.
    pub fn has_recall(&self) -> bool {
        self.recall.is_some()
    }

    /// Measures recall of an answer and checks it against the assertion.
    /// Without a recall assertion, returns no measurement and success, and does not call `ids`. `ids` returns up to the
    /// requested number of document ids, in the order of the answer.
    pub fn judge_recall(
        &self,
        values: &Values,
        ids: impl FnOnce(usize) -> Vec<String>,
    ) -> (Option<Recall>, Result<(), Failure>) {
        self.recall.as_ref().map_or((None, Ok(())), |truth| truth.judge(values, &ids(truth.k)))
    }

    /// Returns a failure if `count`, the number of documents found, is below `min_hits` or differs from `hits`. `hint`
    /// is appended to its message.
    pub fn judge_hits(&self, count: u64, hint: &str) -> Result<(), Failure> {
        match (self.min_hits, self.hits) {
            (Some(least), _) if count < least => {
                Err(assertion(format!("{count} hits, fewer than the {least} that are asserted{hint}")))
            }
            (_, Some(hits)) if count != hits => {
                Err(assertion(format!("{count} hits, and not the {hits} that are asserted{hint}")))
            }
            _ => Ok(()),
        }
    }

    /// Returns a failure for the first asserted field that is missing or has another value. `look` returns the value of
    /// a field by name, or `None` if it is missing.
    pub fn judge_fields(&self, values: &Values, mut look: impl FnMut(&str) -> Option<Value>) -> Result<(), Failure> {
        self.fields.iter().try_for_each(|field| field.judge(values, look(&field.name)))
    }

    /// Returns a failure for the first asserted field that a JSON `document` lacks or that has another value.
    /// Names that begin with `aggregations.` are looked up in the whole `answer`. Other fields fail if there is no
    /// document.
    pub fn judge_json(&self, values: &Values, document: Option<&[u8]>, answer: &[u8]) -> Result<(), Failure> {
        for field in &self.fields {
            let place = if field.name.starts_with("aggregations.") { Some(answer) } else { document };
            let Some(place) = place else {
                return Err(assertion(format!(
                    "cannot check field {:?}: the answer contains no document: {}",
                    field.name,
                    excerpt(answer)
                )));
            };
            let actual = field.pointer.find(place).ok().flatten();
            field.judge(values, actual.and_then(|json| serde_json::from_slice(json).ok()))?;
        }
        Ok(())
    }
}

impl Truth {
    /// Reads `{"of": "${neighbors}", "k": 10, "at_least": 0.9}`. Refuses an `at_least` outside 0 to 1.
    fn read(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let form = Form::new(form, &["of", "k", "at_least"])?;
        let at_least = form.get("at_least").map_or(Some(0.0), Value::as_f64);
        let at_least = at_least.filter(|share| (0.0..=1.0).contains(share));
        Ok(Self {
            of: Template::json(form.require("of")?, variables)?,
            k: usize::try_from(form.count("k")?).unwrap_or(usize::MAX),
            at_least: at_least.ok_or_else(|| PlanError::new("\"at_least\" wants a share from 0 to 1"))?,
        })
    }

    /// Returns the recall of `ids` against the first `k` true ids, and a failure if it is below `at_least` (a share).
    /// If `of` does not render to a JSON list with ids, returns no recall and a failure.
    fn judge(&self, values: &Values, ids: &[String]) -> (Option<Recall>, Result<(), Failure>) {
        let mut rendered = Vec::new();
        self.of.render(values, &mut rendered);
        let truth: Vec<Value> = serde_json::from_slice(&rendered).unwrap_or_default();
        if truth.is_empty() {
            let told = excerpt(&rendered);
            return (None, Err(assertion(format!("recall: \"of\" is not a list of ids: {told}"))));
        }
        let right = |id: &Value| match id {
            Value::String(id) => ids.contains(id),
            id => ids.contains(&id.to_string()),
        };
        let wanted = &truth[..truth.len().min(self.k)];
        let (relevant, retrieved) = (wanted.len() as u64, wanted.iter().filter(|id| right(id)).count() as u64);
        let outcome = if retrieved as f64 / relevant as f64 >= self.at_least {
            Ok(())
        } else {
            let least = self.at_least;
            Err(assertion(format!(
                "{retrieved} of the {relevant} right documents, and at least {least} of them are asserted"
            )))
        };
        (Some(Recall { relevant, retrieved }), outcome)
    }
}

impl Field {
    /// Returns a failure if the `actual` value is missing or differs from the expected one, rendered with `values`.
    fn judge(&self, values: &Values, actual: Option<Value>) -> Result<(), Failure> {
        let mut rendered = Vec::new();
        self.value.render(values, &mut rendered);
        let expected: Value = serde_json::from_slice(&rendered).unwrap_or(Value::Null);
        let name = &self.name;
        match actual {
            Some(actual) if alike(&actual, &expected) => Ok(()),
            Some(actual) => {
                let actual = excerpt(actual.to_string().as_bytes());
                Err(assertion(format!("the field {name:?} is {actual}, and not {expected}")))
            }
            None => Err(assertion(format!("the field {name:?} is missing; expected {expected}"))),
        }
    }
}

/// Returns a field of a document, `None` if it is missing. A dot in the name separates nested fields, unless a field
/// has exactly this name.
pub fn field<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
    document.get(name).or_else(|| document.pointer(&format!("/{}", name.replace('.', "/"))))
}

/// Returns a failure of class Assertion: the answer contradicts the assertion.
pub fn assertion(message: String) -> Failure {
    Failure::new(ErrorClass::Assertion, message)
}

/// Returns whether two values are equal. Numbers compare by value: 1 equals 1.0. Of two integers, all digits count.
/// Objects are equal in any order of their members.
pub fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // As floating-point numbers, integers above 2^53 would equal their neighbours.
        (Value::Number(a), Value::Number(b)) if !a.is_f64() && !b.is_f64() => a == b,
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::variables::Captured;
    use serde_json::json;

    use super::*;

    /// Returns the variables `n`, 7, and `t`, "x".
    fn variables() -> Variables {
        let forms = json!({"n": {"constant": 7}, "t": {"constant": "x"}});
        Variables::parse(forms.as_object().unwrap()).unwrap()
    }

    /// Checks the assertion `form` on a document and an answer with an aggregation. Returns the failure's message.
    fn judged(form: Value, document: Option<&Value>) -> Result<(), String> {
        let (variables, draw) = (variables(), Draw::new(1, 2, 3));
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let answer = json!({"aggregations": {"a": {"buckets": [{"doc_count": 5}]}}}).to_string();
        let document = document.map(Value::to_string);
        let assertion = Assertion::map(&form, &variables).unwrap();
        let judged = assertion.judge_json(&values, document.as_deref().map(str::as_bytes), answer.as_bytes());
        judged.map_err(|failure| failure.message)
    }

    #[test]
    fn fields_have_the_values_that_are_asserted() {
        let document = json!({"a": {"b": [1, {"c": 7}]}, "t": "user x", "z": null, "f": 1.0, "/": true});
        for fields in [
            json!({"a.b.1.c": "${n}"}),
            json!({"a.b": [1.0, {"c": 7}], "t": "user ${t}", "f": 1}),
            json!({"z": null, "/": true}),
            json!({"aggregations.a.buckets.0.doc_count": 5}),
        ] {
            assert_eq!(judged(json!({"fields": fields}), Some(&document)), Ok(()), "{fields}");
        }
    }

    #[test]
    fn numbers_are_alike_by_value_and_integers_by_all_digits() {
        let pairs = [("1", "1.0", true), ("9007199254740993", "9007199254740992", false), ("-1", "-1", true)];
        for (one, other, expected) in pairs {
            let [one, other] = [one, other].map(|json| serde_json::from_str::<Value>(json).unwrap());
            assert_eq!(alike(&one, &other), expected, "{one} {other}");
        }
    }

    #[test]
    fn messages_name_actual_and_expected_value() {
        let document = json!({"a": {"b": 8}, "z": null});
        for (fields, document, message) in [
            (json!({"a.b": "${n}"}), Some(&document), "the field \"a.b\" is 8, and not 7"),
            (json!({"a.b": "8"}), Some(&document), "the field \"a.b\" is 8, and not \"8\""),
            (json!({"a.c": 1}), Some(&document), "the field \"a.c\" is missing; expected 1"),
            (json!({"y": null}), Some(&document), "the field \"y\" is missing; expected null"),
            (json!({"a": 1}), None, "cannot check field \"a\": the answer contains no document: {"),
            (json!({"aggregations.b": 1}), None, "the field \"aggregations.b\" is missing; expected 1"),
        ] {
            let told = judged(json!({"fields": fields}), document).unwrap_err();
            assert!(told.starts_with(message), "{told}");
        }
    }

    #[test]
    fn a_driver_may_look_fields_up_itself() {
        let (variables, draw) = (variables(), Draw::new(1, 2, 3));
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let assertion = Assertion::map(&json!({"fields": {"a.b": "${n}"}}), &variables).unwrap();
        assert!(assertion.judge_fields(&values, |name| (name == "a.b").then(|| json!(7))).is_ok());
        assert_eq!(assertion.judge_fields(&values, |_| None).unwrap_err().class, ErrorClass::Assertion);
    }

    #[test]
    fn recall_is_the_share_of_the_right_documents_among_the_first() {
        let (variables, draw) = (variables(), Draw::new(1, 2, 3));
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let judged = |form: Value, ids: &[&str]| {
            let assertion = Assertion::map(&json!({"recall": form}), &variables).unwrap();
            let first = |k: usize| ids.iter().take(k).map(|id| (*id).to_owned()).collect();
            let (recall, outcome) = assertion.judge_recall(&values, first);
            let counts = recall.map(|recall| (recall.retrieved, recall.relevant));
            (counts, outcome.map_err(|failure| failure.message))
        };
        let of = json!([3, "x", 5, 9]);
        assert_eq!(judged(json!({"of": of, "k": 3}), &["5", "3", "7", "x"]), (Some((2, 3)), Ok(())));
        assert_eq!(judged(json!({"of": of, "k": 10, "at_least": 1}), &["9", "x", "3", "5"]), (Some((4, 4)), Ok(())));
        assert_eq!(judged(json!({"of": of, "k": 2}), &[]), (Some((0, 2)), Ok(())));
        let less = "2 of the 3 right documents, and at least 0.7 of them are asserted".to_owned();
        assert_eq!(judged(json!({"of": of, "k": 3, "at_least": 0.7}), &["5", "3", "7"]), (Some((2, 3)), Err(less)));
        let wrong = "recall: \"of\" is not a list of ids: 7".to_owned();
        assert_eq!(judged(json!({"of": "${n}", "k": 3}), &["7"]), (None, Err(wrong)));
        assert!(Assertion::map(&json!({"recall": {"of": [1]}}), &variables).is_err());
        assert!(Assertion::map(&json!({"recall": {"of": [1], "k": 1, "at_least": 2}}), &variables).is_err());
        let error = Assertion::map_without_recall(&json!({"recall": {"of": [1], "k": 1}}), &variables).unwrap_err();
        assert!(error.message.contains("only a search in one request has \"recall\""), "{}", error.message);
        assert!(Assertion::map_without_recall(&json!({"hits": 1}), &variables).is_ok());
    }

    #[test]
    fn hits_are_bounded_or_exact() {
        let judged = |form: Value, count: u64| {
            let assertion = Assertion::map(&form, &variables()).unwrap();
            assertion.judge_hits(count, "").map_err(|failure| failure.message)
        };
        assert_eq!(judged(json!({"min_hits": 3}), 3), Ok(()));
        assert_eq!(judged(json!({"min_hits": 3}), 2).unwrap_err(), "2 hits, fewer than the 3 that are asserted");
        assert_eq!(judged(json!({"hits": 0}), 0), Ok(()));
        assert_eq!(judged(json!({"hits": 0}), 2).unwrap_err(), "2 hits, and not the 0 that are asserted");
    }
}
