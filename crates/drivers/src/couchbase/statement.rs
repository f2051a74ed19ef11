//! SQL++ statements, which a node's query service answers over HTTP.

use loadframe_engine::driver::{ErrorClass, Exchange, Failure, NO_NODE, Reply};
use loadframe_engine::workload::variables::Values;
use serde_json::{Value, from_slice, to_string_pretty};

use super::answer::client;
use super::http_service::{Service, head};
use super::nodes::{CouchbaseNodes, no_query_node};
use super::operation::Operation;
use crate::capture::Memory;
use crate::excerpt::excerpt;
use crate::http1::answer::Answer;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::element;
use loadframe_engine::util::json::Cursor;
use loadframe_engine::util::trace::Trace;

/// Path of the query service.
const PATH: &str = "/query/service";

/// One client's connections, by node number.
#[derive(Default)]
pub struct Statements {
    services: Vec<Service>,
}

/// A statement's request: body, number and deadline.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// JSON, ready to send.
    pub body: &'a [u8],
    /// Selects the node.
    pub turn: u64,
    /// The request's deadline.
    pub limit: Limit,
}

impl Statements {
    /// Sends a statement to a query node and judges its answer. Captures values into `memory`, and puts request and
    /// answer into `shown` if set. Returns the reply, with the number of results as documents.
    pub async fn ask(
        &mut self,
        nodes: &CouchbaseNodes,
        operation: &Operation,
        request: Request<'_>,
        values: &Values<'_>,
        (memory, shown): (&mut Memory, &mut Option<Exchange>),
    ) -> Reply {
        let (exchanged, node, outcome) = self.send(nodes, request, values.draw.trace.as_ref()).await;
        let answer = self.services.get(usize::from(node)).map(|service| service.answer());
        if let Some(show) = shown {
            show.request = self::shown(request.body);
            show.answer = match (&outcome, answer) {
                (Ok(()), Some(answer)) => String::from_utf8_lossy(answer.body()).into_owned(),
                _ => String::new(),
            };
        }
        let status = outcome.as_ref().ok().and(answer).map(Answer::status);
        let judged = outcome.and_then(|()| match answer {
            Some(answer) => judge(operation, (answer.status(), answer.body()), values, memory),
            None => Err(client("no answer")),
        });
        Reply { status, ..exchanged.judged(node, judged) }
    }

    /// Sends a statement to a node with the query service, after connecting if necessary. Returns times and bytes, the
    /// node's number, and a failure without an answer. An answer of any status is a success.
    async fn send(
        &mut self,
        nodes: &CouchbaseNodes,
        Request { body, turn, limit }: Request<'_>,
        trace: Option<&Trace>,
    ) -> (Exchanged, u16, Result<(), Failure>) {
        let Some((node, host)) = nodes.query(turn) else {
            return (Exchanged::never(), NO_NODE, Err(no_query_node()));
        };
        let service = element(&mut self.services, usize::from(node));
        if let Err(failure) = service.open(&host, &nodes.connect_options, limit).await {
            return (Exchanged::never(), node, Err(failure));
        }
        let head = head("POST", PATH, &host, &nodes.connect_options, body.len(), trace);
        let (exchanged, outcome) = service.speak([&head, body], limit).await;
        (exchanged, node, outcome.map_err(Failure::from))
    }
}

/// Checks errors, HTTP status and assertion of an answer, and captures values into `memory`. Returns the number of
/// results; 0 without a list. Fails for an answer that is not JSON.
pub(super) fn judge(
    operation: &Operation,
    (status, body): (u16, &[u8]),
    values: &Values<'_>,
    memory: &mut Memory,
) -> Result<u64, Failure> {
    let failed = |class, message| Err(Failure::new(class, message));
    let class = if status >= 500 { ErrorClass::Server } else { ErrorClass::Client };
    let (Ok(results), Ok(errors)) = (Cursor::member(body, b"results"), Cursor::member(body, b"errors")) else {
        return failed(class, format!("an answer of status {status} that is not JSON"));
    };
    if let Some(mut errors) = errors {
        match errors.value().map(from_slice::<Value>) {
            Ok(Ok(Value::Null)) => {}
            Ok(Ok(Value::Array(errors))) => {
                if let Some(first) = errors.first() {
                    let message =
                        first["msg"].as_str().map_or_else(|| excerpt(first.to_string().as_bytes()), str::to_owned);
                    return failed(self::class(status, first["code"].as_i64().unwrap_or(0)), message);
                }
            }
            _ => return failed(class, format!("an answer with errors that cannot be read: {}", excerpt(body))),
        }
    }
    if status >= 400 {
        return failed(class, format!("an answer of status {status}"));
    }
    let (mut documents, mut first) = (0, None);
    if let Some(mut results) = results {
        let walked = results.array(|_, cursor| {
            let json = cursor.value()?;
            first.get_or_insert(json);
            documents += 1;
            Ok(true)
        });
        if walked.is_err() {
            return failed(class, "an answer whose results are not a list".to_owned());
        }
    }
    if let Some(assertion) = &operation.assertion {
        assertion.judge_hits(documents, "")?;
        if assertion.has_fields() {
            assertion.judge_json(values, first, body)?;
        }
    }
    memory.take(&operation.captures, |name, place| Ok(place.in_json(name, first)))?;
    Ok(documents)
}

/// Returns the class of an error by HTTP status and error code; `Client` if neither is known.
///
/// Code 1080 is the service's timeout; codes 5000 to 5999 are internal errors. Code 12003, a missing keyspace, is a
/// client error although its status is 500.
fn class(status: u16, code: i64) -> ErrorClass {
    match (status, code) {
        (_, 1080) => ErrorClass::Timeout,
        (429 | 503, _) => ErrorClass::Rejected,
        (_, 12003) => ErrorClass::Client,
        (_, 5000..6000) | (500.., _) => ErrorClass::Server,
        _ => ErrorClass::Client,
    }
}

/// Formats a request with this JSON body for display.
pub fn shown(body: &[u8]) -> String {
    let pretty = from_slice::<Value>(body).ok().and_then(|body| to_string_pretty(&body).ok());
    format!("POST {PATH}\n{}", pretty.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_counted_by_its_code() {
        for (status, code, expected) in [
            (200, 1080, ErrorClass::Timeout),
            (503, 1181, ErrorClass::Rejected),
            (500, 12003, ErrorClass::Client),
            (500, 5000, ErrorClass::Server),
            (500, 0, ErrorClass::Server),
            (400, 3000, ErrorClass::Client),
        ] {
            assert_eq!(class(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn a_request_is_shown_with_its_path() {
        assert_eq!(shown(b"{\"statement\":\"SELECT 1\"}"), "POST /query/service\n{\n  \"statement\": \"SELECT 1\"\n}");
    }
}
