//! Times that a service reports in its answer, recorded as parts of the operation. An example is its wait for a store.
//!
//! The W3C header `Server-Timing` holds them in milliseconds: `store;dur=12.3, app;dur=1.9`.

use std::time::Duration;

use loadframe_engine::driver::{Reply, ReplyPart};
use loadframe_engine::plan::PlanError;
use serde_json::Value;

use crate::assertion::assertion;
use crate::http1::answer::Answer;

/// Name of the header.
const HEADER: &str = "server-timing";

/// Names of the times to read.
#[derive(Debug, Default)]
pub struct Timing(&'static [&'static str]);

impl Timing {
    /// Parses `["store", "app"]`. Without a form, reads no times. Refuses a name twice, or with other characters than
    /// letters, digits, `_` and `-`.
    pub fn new(form: Option<&Value>) -> Result<Self, PlanError> {
        let names = match form {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(Value::Array(names)) => names,
            Some(other) => return Err(refused(other)),
        };
        let mut kept: Vec<&'static str> = Vec::new();
        for name in names {
            let text = name.as_str().filter(|text| is_token(text)).ok_or_else(|| refused(name))?;
            if kept.contains(&text) {
                return Err(PlanError::new(format!("\"timing\" has {text:?} twice")));
            }
            // Leaked, because part names must be static. A plan has only a few.
            kept.push(Box::leak(text.to_owned().into_boxed_str()));
        }
        Ok(Self(Box::leak(kept.into_boxed_slice())))
    }

    /// Returns the names of the recorded parts.
    pub fn parts(&self) -> &'static [&'static str] {
        self.0
    }

    /// Adds a part to the reply for each time, which ends when the reply is done. Turns a success into a failure if the
    /// answer lacks one of them.
    pub fn read(&self, answer: &Answer, reply: &mut Reply) {
        if self.0.is_empty() {
            return;
        }
        // Each service on the way of the answer may add a header.
        let told: Vec<&str> = answer.fields(HEADER).filter_map(|value| std::str::from_utf8(value).ok()).collect();
        for (name, &wanted) in self.0.iter().enumerate() {
            if let Some(time) = told.iter().find_map(|told| time_of(told, wanted)) {
                let sent = reply.done.checked_sub(time).unwrap_or(reply.sent);
                let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
                reply.parts.push(ReplyPart { name, sent, done: reply.done, documents: 0, failed });
            } else if reply.outcome.is_ok() {
                let told = told.join(", ");
                reply.outcome =
                    Err(assertion(format!("the answer's Server-Timing does not tell {wanted:?}: {told:?}")));
            }
        }
    }
}

/// Returns the time named `wanted` in the header's text `told`, which has milliseconds; `None` if it is missing or no
/// number.
fn time_of(told: &str, wanted: &str) -> Option<Duration> {
    told.split(',').find_map(|entry| {
        let mut words = entry.split(';').map(str::trim);
        if words.next() != Some(wanted) {
            return None;
        }
        let milliseconds = words.find_map(|word| word.strip_prefix("dur="))?.parse::<f64>().ok()?;
        Duration::try_from_secs_f64(milliseconds / 1e3).ok()
    })
}

/// Returns whether a name consists of ASCII letters, digits, `_` and `-`, at least one.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Returns the error for a `timing` that is not a list of names.
fn refused(value: &Value) -> PlanError {
    PlanError::new(format!("\"timing\" wants a list of names of the header Server-Timing, not {value}"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::http1::answer::Body;
    use crate::net::exchange::Frame;

    #[test]
    fn times_are_read_from_all_headers_of_an_answer() {
        let text = b"HTTP/1.1 200 OK\r\nserver-timing: cdn;dur=1\r\nServer-Timing: store;dur=2\r\n\r\n";
        let mut answer = Answer::new();
        answer.begin(Body::None);
        answer.space().unwrap()[..text.len()].copy_from_slice(text);
        assert!(answer.advance(text.len()).unwrap());
        let now = Instant::now();
        let mut reply = Reply::new(now, now + Duration::from_millis(9), Ok(()));
        Timing::new(Some(&json!(["store", "cdn"]))).unwrap().read(&answer, &mut reply);
        let times: Vec<Duration> = reply.parts.iter().map(|part| part.done - part.sent).collect();
        assert_eq!(times, [2, 1].map(Duration::from_millis));
        assert!(reply.outcome.is_ok());
    }

    #[test]
    fn times_are_found_by_their_names() {
        let told = "cache;desc=\"a b\";dur=1.5, store;dur=12.25,app;dur=0";
        assert_eq!(time_of(told, "store"), Some(Duration::from_micros(12_250)));
        assert_eq!(time_of(told, "cache"), Some(Duration::from_micros(1_500)));
        assert_eq!(time_of(told, "app"), Some(Duration::ZERO));
        for silent in ["", "stores;dur=1", "store", "store;dur=", "store;dur=-1", "store;dur=NaN", "store;dur=1e300"] {
            assert_eq!(time_of(silent, "store"), None, "{silent}");
        }
    }

    #[test]
    fn a_list_of_distinct_names_is_required() {
        for form in [json!("store"), json!([1]), json!(["a b"]), json!([""]), json!(["a", "a"])] {
            assert!(Timing::new(Some(&form)).is_err(), "{form}");
        }
        assert!(Timing::new(None).unwrap().parts().is_empty());
        assert_eq!(Timing::new(Some(&json!(["store", "app"]))).unwrap().parts(), ["store", "app"]);
    }
}
