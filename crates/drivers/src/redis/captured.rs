//! What is taken from an answer for the user's later requests: from a document, or from a command's reply.

use std::borrow::Cow;

use loadframe_engine::plan::PlanError;
use loadframe_engine::workload::variables::Variables;
use serde_json::Value;

use super::resp::{Item, Reader};
use crate::assertion::assertion;
use crate::capture::{Captures, Found, Place, Source};
use crate::form::Form;

/// Where in an answer a value is.
#[derive(Debug)]
pub enum CapturedReply {
    /// In the first document, of a verb.
    Document(Place),
    /// The reply to a command: all of it, or the item of that number.
    Reply(Option<usize>),
}

impl Source for CapturedReply {
    const KEYS: &'static [&'static str] = &["field", "json", "reply"];

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

/// What an operation takes, as its form says; refused where its answers have no such thing: a verb that reads has
/// documents, a command a reply.
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

/// What a text is taken for: a number, a boolean, a list or a mapping where it reads as one in JSON.
pub fn value(text: &[u8]) -> Value {
    let parsed = serde_json::from_slice::<Value>(text).ok().filter(|value| !value.is_string() && !value.is_null());
    parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(text).into_owned()))
}

/// A reply, or an item of one that is a list: a number, or a text, as what it reads as.
pub fn reply<'a>(name: &str, number: Option<usize>, mut answer: Reader<'a>) -> Found<'a> {
    let nothing = |what: &str| Found::Nothing(assertion(format!("{what} to take \"{name}\" from")));
    if let Some(number) = number {
        let Some(elements) = answer.list() else { return nothing("the reply is one value, not a list,") };
        if number >= elements {
            return nothing(&format!("the reply has {elements} items, and so none of number {number}"));
        }
        (0..number).for_each(|_| answer.skip());
    }
    match answer.next() {
        Some(Item::Int(number)) => Found::Json(Cow::Owned(number.to_string().into_bytes())),
        Some(Item::Bulk(text) | Item::Status(text)) => {
            if value(text).is_string() {
                Found::Text(String::from_utf8_lossy(text))
            } else {
                Found::Json(Cow::Borrowed(text))
            }
        }
        Some(Item::List(_)) => nothing("the reply is a list: say which item,"),
        _ => nothing("the reply is empty, with nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: Option<usize>, answer: &[u8]) -> Result<String, String> {
        match reply("total", number, Reader::new(answer)) {
            Found::Json(json) => Ok(String::from_utf8(json.into_owned()).unwrap()),
            Found::Text(text) => Ok(text.into_owned()),
            Found::Nothing(failure) => Err(failure.message),
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
        assert!(said(Some(3), list).unwrap_err().starts_with("the reply has 3 items"));
        assert!(said(None, list).unwrap_err().starts_with("the reply is a list"));
        assert!(said(Some(0), b":7\r\n").unwrap_err().starts_with("the reply is one value"));
        assert!(said(None, b"$-1\r\n").unwrap_err().starts_with("the reply is empty"));
    }
}
