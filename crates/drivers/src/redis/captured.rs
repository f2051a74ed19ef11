//! Captures from answers: from a document, or from the reply to a command.

use std::borrow::Cow;

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Variables;
use serde_json::Value;

use super::resp::{Item, Reader};
use crate::assertion::assertion;
use crate::capture::{Captures, Lookup, Place, Source};
use crate::form::Form;

/// Location of a captured value.
#[derive(Debug)]
pub enum CapturedReply {
    /// In the first document of a verb's answer.
    Document(Place),
    /// In the reply to a command: the whole reply, or the item with this index.
    Reply(Option<usize>),
}

impl Source for CapturedReply {
    const KEYS: &'static [&'static str] = &["field", "json", "reply"];

    /// Reads `{"reply": true}`, `{"reply": 2}` (counted from 0), `{"field": "a.b"}` or `{"json": "/a/b"}`; returns
    /// `None` if the form has none of them. Refuses another value of `reply`.
    fn read(form: &Form) -> Result<Option<Self>, PlanError> {
        Ok(match form.get("reply") {
            None => Place::read(form)?.map(Self::Document),
            Some(Value::Bool(true)) => Some(Self::Reply(None)),
            Some(other) => {
                let number = other.as_u64().and_then(|number| usize::try_from(number).ok());
                let wrong = || PlanError::new(format!("\"reply\" wants true, or the number of an item, not {other}"));
                Some(Self::Reply(Some(number.ok_or_else(wrong)?)))
            }
        })
    }
}

/// Reads the captures in the key `capture` of an operation. `reads`: its answer has documents. `command`: its answer is
/// a reply. Refuses a capture of fields without documents, and of a reply without one.
pub fn taken(
    form: &Value,
    reads: bool,
    command: bool,
    variables: &Variables,
) -> Result<Captures<CapturedReply>, PlanError> {
    let captures = Captures::new(form.get("capture"), variables)?;
    for taken in captures.sources() {
        let fits = if matches!(taken, CapturedReply::Reply(_)) { command } else { reads };
        if !fits {
            let cause = "capture: verbs that read have documents, commands have a reply, and nothing else gives values";
            return Err(PlanError::new(cause));
        }
    }
    Ok(captures)
}

/// Converts text that is a JSON number, boolean, list or mapping; other text stays a string, with invalid UTF-8
/// replaced.
pub fn value(text: &[u8]) -> Value {
    let parsed = serde_json::from_slice::<Value>(text).ok().filter(|value| !value.is_string() && !value.is_null());
    parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(text).into_owned()))
}

/// Looks up a reply, or item `number`, from 0, of a list reply: an integer, or text converted by [`value`]. Null, an
/// error, a list and an item that does not exist count as missing. `name` is the captured value's name, for the
/// failure.
pub fn reply<'a>(name: &str, number: Option<usize>, mut answer: Reader<'a>) -> Lookup<'a> {
    let nothing = |what: &str| Lookup::Missing(assertion(format!("cannot capture \"{name}\": {what}")));
    if let Some(number) = number {
        let Some(elements) = answer.list() else { return nothing("the reply is one value, not a list") };
        if number >= elements {
            return nothing(&format!("the reply has {elements} items; item {number} is missing"));
        }
        (0..number).for_each(|_| answer.skip());
    }
    match answer.next() {
        Some(Item::Int(number)) => Lookup::Json(Cow::Owned(number.to_string().into_bytes())),
        Some(Item::Bulk(text) | Item::Status(text)) => {
            if value(text).is_string() {
                Lookup::Text(String::from_utf8_lossy(text))
            } else {
                Lookup::Json(Cow::Borrowed(text))
            }
        }
        Some(Item::List(_)) => nothing("the reply is a list; name the item"),
        _ => nothing("the reply is empty"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks up a reply, or item number `number` of it. Returns the value as text, or the failure's message.
    fn said(number: Option<usize>, answer: &[u8]) -> Result<String, String> {
        match reply("total", number, Reader::new(answer)) {
            Lookup::Json(json) => Ok(String::from_utf8(json.into_owned()).unwrap()),
            Lookup::Text(text) => Ok(text.into_owned()),
            Lookup::Missing(failure) => Err(failure.message),
        }
    }

    #[test]
    fn a_reply_is_a_number_or_a_text_and_an_item_has_a_place() {
        assert_eq!(said(None, b":7\r\n"), Ok("7".into()));
        assert_eq!(said(None, b"$3\r\n1.5\r\n"), Ok("1.5".into()));
        assert_eq!(said(None, b"$3\r\nAnn\r\n"), Ok("Ann".into()));
        let list = b"*3\r\n*2\r\n:1\r\n:2\r\n$1\r\na\r\n:9\r\n";
        assert_eq!(said(Some(2), list), Ok("9".into()));
        assert_eq!(said(Some(1), list), Ok("a".into()));
        assert!(said(Some(3), list).unwrap_err().contains("the reply has 3 items"));
        assert!(said(None, list).unwrap_err().contains("the reply is a list"));
        assert!(said(Some(0), b":7\r\n").unwrap_err().contains("the reply is one value"));
        assert!(said(None, b"$-1\r\n").unwrap_err().contains("the reply is empty"));
    }
}
