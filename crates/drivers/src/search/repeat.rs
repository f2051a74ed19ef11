//! Repeats a request until a condition on its answer holds, for example that no merge is running.
//!
//! All figures count the wait as one request, from the first sending to the last answer. Each exchange is also recorded
//! as a part.

use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure, Reply, ReplyPart};
use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use super::Search;
use super::request::SearchStep;
use crate::assertion::{Assertion, alike};
use crate::form::Form;
use crate::http1::Connection;
use crate::http1::request::Request;
use crate::net::deadline::{Limit, sleep};
use loadframe_engine::workload::json_pointer::Pointer;

/// The parts of a repeated operation.
pub const PARTS: [&str; 1] = ["attempt"];

/// Default pause between attempts, in seconds.
const EVERY: f64 = 1.0;
/// Default time limit of all attempts, in seconds.
const WITHIN: f64 = 600.0;

/// When to end a repeated operation.
#[derive(Debug)]
pub struct Repeat {
    /// Conditions that must all hold in one answer; without conditions, the answer must succeed.
    until: Vec<Condition>,
    every: Duration,
    within: Duration,
}

/// A condition on one value of an answer.
#[derive(Debug)]
struct Condition {
    /// The condition as written.
    name: String,
    pointer: Pointer,
    relation: Relation,
    wanted: Template,
}

/// How a value relates to the wanted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    AtLeast,
    AtMost,
    OneOf,
}

impl Repeat {
    /// Reads `{"until": {"a.b": 0, "/c": {"at_least": 3}}, "every": 1, "within": 600}`, with times in seconds. Refuses
    /// unknown keys, wrong types, and times that are not above 0 or not below 1e9.
    pub fn map(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        Self::read(form, variables).map_err(|error| error.within("repeat"))
    }

    /// Reads the form for `map`, which adds the word `repeat` to its errors.
    fn read(form: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let form = Form::new(form, &["until", "every", "within"])?;
        let mut until = Vec::new();
        if form.get("until").is_some() {
            for (name, wanted) in form.mapping("until")?.as_object().into_iter().flatten() {
                until.push(Condition::read(name, wanted, variables)?);
            }
        }
        let seconds = |key: &str, default: f64| match form.get(key) {
            None => Ok(Duration::from_secs_f64(default)),
            Some(value) => {
                let seconds = value.as_f64().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
                let wrong = || PlanError::new(format!("\"{key}\" wants seconds above 0, not {value}"));
                seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
            }
        };
        Ok(Self { until, every: seconds("every", EVERY)?, within: seconds("within", WITHIN)? })
    }

    /// Returns whether judging needs the body of the answer.
    pub fn reads_body(&self) -> bool {
        !self.until.is_empty()
    }

    /// Repeats the request until the conditions hold, a retry cannot help, or the time is up.
    /// The end of the time is a failure of class Timeout. Waits between attempts. `timeout` applies to each exchange.
    /// Calls `seen` with the request and each reply. Returns one reply with the attempts as parts, from the first
    /// sending to the last answer.
    pub async fn run(
        &self,
        search: &Search,
        connection: &mut Connection,
        (step, assertion): (&SearchStep, Option<&Assertion>),
        timeout: Duration,
        values: &Values<'_>,
        seen: &mut impl FnMut(&Connection, &Request, &Reply),
    ) -> Reply {
        let limit = Limit::starting_now(self.within);
        let mut whole: Option<Reply> = None;
        let mut parts = Vec::new();
        loop {
            let reply = search.step(connection, step, assertion, Limit::starting_now(timeout), values).await;
            seen(connection, &step.request, &reply);
            let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
            parts.push(ReplyPart { name: 0, sent: reply.sent, done: reply.done, documents: reply.documents, failed });
            let missing = self.missing(&reply, connection, values);
            let last = match &whole {
                None => reply,
                Some(before) => Reply {
                    sent: before.sent,
                    bytes_sent: before.bytes_sent + reply.bytes_sent,
                    bytes_received: before.bytes_received + reply.bytes_received,
                    overhead: before.overhead.then(reply.overhead),
                    node: reply.node_or(before.node),
                    ..reply
                },
            };
            let Some(missing) = missing else { return Reply { parts, ..last } };
            if limit.has_passed() {
                let answers = parts.len();
                let message = format!("after {} s and {answers} attempts {missing}", self.within.as_secs_f64());
                let outcome = Err(Failure::new(ErrorClass::Timeout, message));
                return Reply { parts, outcome, documents: 0, ..last };
            }
            whole = Some(last);
            sleep(self.every.min(limit.left())).await;
        }
    }

    /// Returns a description of the unmet condition if a retry may help; `None` if the operation has ended.
    /// The end may be a success or a failure. Without conditions, every failure is retried.
    fn missing(&self, reply: &Reply, connection: &Connection, values: &Values<'_>) -> Option<String> {
        match &reply.outcome {
            Err(failure) if self.until.is_empty() || failure.class.may_pass() => {
                return Some(format!("it still fails: {}", failure.message));
            }
            Err(failure) if failure.class != ErrorClass::Assertion => return None,
            // The conditions decide whether this answer is the last; only then do assertions apply.
            _ => {}
        }
        self.until.iter().find_map(|condition| condition.missing(connection.answer().body(), values))
    }
}

impl Condition {
    /// Reads the condition on the value at `name`, a pointer or a dotted name: a value, or a mapping with one of
    /// `at_least`, `at_most` and `one_of`. Refuses other mappings.
    fn read(name: &str, wanted: &Value, variables: &Variables) -> Result<Self, PlanError> {
        let pointer = if name.starts_with('/') {
            Pointer::parse(name)?
        } else {
            Pointer::parse(&format!("/{}", name.replace('~', "~0").replace('/', "~1").replace('.', "/")))?
        };
        let (relation, wanted) = match wanted.as_object() {
            None => (Relation::Equal, wanted),
            Some(mapping) => {
                let named = mapping.iter().next().filter(|_| mapping.len() == 1);
                let relation = named.and_then(|(key, _)| match key.as_str() {
                    "at_least" => Some(Relation::AtLeast),
                    "at_most" => Some(Relation::AtMost),
                    "one_of" => Some(Relation::OneOf),
                    _ => None,
                });
                let (Some(relation), Some((_, wanted))) = (relation, named) else {
                    let what = "wants a value, or one of at_least, at_most and one_of";
                    return Err(PlanError::new(format!(
                        "until: {name:?} {what}, not {}",
                        Value::from(mapping.clone())
                    )));
                };
                (relation, wanted)
            }
        };
        Ok(Self { name: name.to_owned(), pointer, relation, wanted: Template::json(wanted, variables)? })
    }

    /// Describes how the answer differs from the condition; `None` if the condition holds.
    fn missing(&self, body: &[u8], values: &Values<'_>) -> Option<String> {
        let mut rendered = Vec::new();
        self.wanted.render(values, &mut rendered);
        let wanted: Value = serde_json::from_slice(&rendered).unwrap_or_default();
        let json = self.pointer.find(body).ok().flatten();
        let Some(value) = json.and_then(|json| serde_json::from_slice::<Value>(json).ok()) else {
            return Some(format!("the answer has no {:?}", self.name));
        };
        let compared = value.as_f64().zip(wanted.as_f64());
        let (holds, relation) = match self.relation {
            Relation::Equal => (alike(&value, &wanted), ""),
            Relation::AtLeast => (compared.is_some_and(|(value, wanted)| value >= wanted), "at least "),
            Relation::AtMost => (compared.is_some_and(|(value, wanted)| value <= wanted), "at most "),
            Relation::OneOf => {
                (wanted.as_array().is_some_and(|list| list.iter().any(|wanted| alike(&value, wanted))), "one of ")
            }
        };
        (!holds).then(|| format!("{:?} is {value}, and not {relation}{wanted}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use loadframe_engine::util::draw::Draw;
    use loadframe_engine::workload::variables::Captured;
    use serde_json::json;

    use super::*;

    /// Returns the difference between an answer and the conditions `until`; `None` if all hold.
    fn missing(until: Value, answer: &Value) -> Option<String> {
        let forms = json!({"n": {"constant": 7}});
        let variables = Variables::parse(forms.as_object().unwrap()).unwrap();
        let draw = Draw::new(1, 2, 3);
        let values = Values { variables: &variables, draw: &draw, captured: &Captured::NONE };
        let repeat = Repeat::map(&json!({"until": until}), &variables).unwrap();
        repeat.until.iter().find_map(|condition| condition.missing(answer.to_string().as_bytes(), &values))
    }

    #[test]
    fn unmet_conditions_name_the_difference() {
        let answer = json!({"_all": {"total": {"merges": {"current": 3}}}, "a.b": true, "status": "yellow", "n": 7});
        for (until, lacks) in [
            (json!({"_all.total.merges.current": 3}), None),
            (json!({"_all.total.merges.current": 0}), Some("\"_all.total.merges.current\" is 3, and not 0")),
            (json!({"/_all/total/merges/current": {"at_most": 3}, "/a.b": true}), None),
            (json!({"n": {"at_least": 8}}), Some("\"n\" is 7, and not at least 8")),
            (json!({"n": {"at_least": "${n}"}, "status": {"one_of": ["green", "yellow"]}}), None),
            (json!({"status": {"one_of": ["green"]}}), Some("\"status\" is \"yellow\", and not one of [\"green\"]")),
            (json!({"status": {"at_most": 3}}), Some("\"status\" is \"yellow\", and not at most 3")),
            (json!({"merges": 0}), Some("the answer has no \"merges\"")),
        ] {
            assert_eq!(missing(until.clone(), &answer).as_deref(), lacks, "{until}");
        }
    }

    #[test]
    fn a_bad_condition_is_refused() {
        let variables = Variables::default();
        let error = |form: Value| Repeat::map(&form, &variables).unwrap_err().message;
        assert!(error(json!({"until": {"a": {"above": 3}}})).contains("at_least, at_most and one_of"));
        assert!(error(json!({"until": {"a": 1}, "every": 0})).contains("seconds above 0"));
        assert!(error(json!({"untl": {"a": 1}})).contains("did you mean \"until\"?"));
    }
}
