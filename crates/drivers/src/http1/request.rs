//! Prepared requests. Rendering copies the fixed parts and fills in the variable parts. It adds the `host` and
//! `authorization` headers last, unless the operation sets them.

use std::fmt::Debug;

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::digits::push_u64;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use super::access::{Access, Credential};
use super::answer;
use super::compress;
use crate::net::target_node::Host;
use crate::net::watched_file::Seen;

/// A method, the rest of the first line, and headers. [`RequestHead::finish`] completes it.
pub struct RequestHead<'a> {
    variables: &'a Variables,
    template: Template,
    bodyless: bool,
    has_query: bool,
    fields: Fields,
}

/// Headers that the operation sets.
#[derive(Debug, Default)]
struct Fields {
    template: Template,
    /// Whether the operation overrides these headers of the generator.
    host: bool,
    authorization: bool,
    content_type: bool,
    traceparent: bool,
}

/// The body of a request.
#[derive(Debug)]
pub enum Body {
    /// No body, and the server expects none.
    None,
    /// JSON.
    Json(Template),
    /// One JSON text per line.
    Lines(Template),
    /// Any text.
    Text(Template),
    /// Lines of JSON: an action and a document each.
    Batches(Box<dyn Batches>),
    /// Lines of JSON that the buffer already holds; see [`Buffers::give`].
    Given,
    /// JSON in two pieces, with bytes from earlier answers between them; see [`Buffers::carried`].
    Around(Template, Template),
}

impl Body {
    /// Returns the `content-type` header with its line end.
    fn content_type(&self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Json(_) | Self::Around(..) => b"content-type: application/json\r\n",
            Self::Text(_) => b"content-type: text/plain; charset=utf-8\r\n",
            Self::Lines(_) | Self::Batches(_) | Self::Given => b"content-type: application/x-ndjson\r\n",
        }
    }
}

/// Headers that determine the end of a message. Operations cannot set them.
const FRAMING: [&str; 6] =
    ["content-length", "transfer-encoding", "connection", "content-encoding", "expect", "upgrade"];

/// The documents of successive requests.
pub trait Batches: Debug + Send + Sync {
    /// Returns the number of requests that send each document once.
    fn requests(&self) -> u64;

    /// Appends the body of request `draw` to `body` and returns its number of documents. `scratch` is an empty buffer.
    fn append(&self, draw: &Draw, scratch: &mut Vec<u8>, body: &mut Vec<u8>) -> u64;

    /// Keeps only the documents at the indices `places`, in ascending order, of a `body` from `append`. Returns their
    /// number.
    fn keep(&self, body: &mut Vec<u8>, places: &[u32]) -> u64;
}

/// A request without its drawn values.
#[derive(Debug)]
pub struct Request {
    line: Template,
    fields: Fields,
    body: Body,
    /// Handling of the answer's body.
    pub answer: answer::Body,
}

/// Maximum size of a body that is copied behind its head. One piece costs less than two up to this size.
const COPIED: usize = 4 << 10;

/// Buffers for a client's rendered requests.
#[derive(Default)]
pub struct Buffers {
    /// The head, followed by a small body.
    head: Vec<u8>,
    body: Vec<u8>,
    compressed: Vec<u8>,
    scratch: Vec<u8>,
    /// Bytes from earlier answers that a follow-up request carries.
    pub carried: Vec<u8>,
    /// Indices of the documents that the next request sends. Empty means all documents.
    pub only: Vec<u32>,
    /// Number of documents in the body from [`Buffers::give`].
    given: u64,
    /// The credentials of the last request.
    seen: Seen<Credential>,
}

impl Buffers {
    /// Calls `write`, which replaces the buffer's contents by the next request's body.
    /// `write` returns the number of documents in the body.
    pub fn give(&mut self, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        self.given = write(&mut self.body);
    }
}

/// A rendered request, ready to send.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'a> {
    /// Pieces to send one after the other.
    pub parts: [&'a [u8]; 2],
    /// Number of documents in the request.
    pub documents: u64,
}

impl<'a> RequestHead<'a> {
    /// Begins with `method` and a space.
    pub fn new(method: &str, variables: &'a Variables) -> Self {
        let mut template = Template::default();
        template.push_literal(method);
        template.push_literal(" ");
        Self { variables, template, bodyless: method == "HEAD", has_query: false, fields: Fields::default() }
    }

    /// Appends a slash and `text`, percent-encoded, to the path. Refuses unknown variables.
    pub fn segment(mut self, text: &str) -> Result<Self, PlanError> {
        self.template.push_literal("/");
        self.template.push_segment(text, self.variables)?;
        Ok(self)
    }

    /// Appends a whole path, with or without a query string, unchanged except for its variables. Refuses unknown
    /// variables.
    pub fn path(mut self, text: &str) -> Result<Self, PlanError> {
        self.template.push_path(text, self.variables)?;
        self.has_query = text.contains('?');
        Ok(self)
    }

    /// Appends `name=value`, percent-encoded, to the query string. Refuses null, a list or a mapping as the value.
    pub fn parameter(mut self, name: &str, value: &Value) -> Result<Self, PlanError> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => {
                return Err(PlanError::new(format!(
                    "parameter \"{name}\" wants a text, a number or a boolean, not {value}"
                )));
            }
        };
        self.template.push_literal(if self.has_query { "&" } else { "?" });
        self.has_query = true;
        self.template.push_segment(name, self.variables)?;
        self.template.push_literal("=");
        self.template.push_segment(&text, self.variables)?;
        Ok(self)
    }

    /// Appends a header. Refuses an invalid name or value, and headers that determine the end of a message.
    pub fn field(mut self, name: &str, value: &str) -> Result<Self, PlanError> {
        let within = |error: PlanError| error.within(format!("header \"{name}\""));
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(within(PlanError::new("it is not a valid header name")));
        }
        let lower = name.to_ascii_lowercase();
        if FRAMING.contains(&lower.as_str()) {
            return Err(within(PlanError::new("the generator sets it; leave it out")));
        }
        self.fields.host |= lower == "host";
        self.fields.authorization |= lower == "authorization";
        self.fields.content_type |= lower == "content-type";
        self.fields.traceparent |= lower == "traceparent";
        self.fields.template.push_literal(name);
        self.fields.template.push_literal(": ");
        self.fields.template.push_field(value, self.variables).map_err(within)?;
        self.fields.template.push_literal("\r\n");
        Ok(self)
    }

    /// Returns the request with this head and `body`. It keeps the answer's body; for HEAD, there is none.
    pub fn finish(mut self, body: Body) -> Request {
        self.template.push_literal(" HTTP/1.1\r\n");
        let answer = if self.bodyless { answer::Body::None } else { answer::Body::Read };
        Request { line: self.template, fields: self.fields, body, answer }
    }
}

impl Request {
    /// Makes the answer's body counted instead of kept.
    pub fn ignore_answer(&mut self) {
        if self.answer == answer::Body::Read {
            self.answer = answer::Body::Counted;
        }
    }

    /// Returns whether requests carry the trace context of their draw: the operation does not set its own.
    pub fn traces(&self) -> bool {
        !self.fields.traceparent
    }

    /// Returns the number of requests that send each document of the corpus once, if the request sends a corpus.
    pub fn requests(&self) -> Option<u64> {
        match &self.body {
            Body::Batches(batches) => Some(batches.requests()),
            Body::None | Body::Json(_) | Body::Lines(_) | Body::Text(_) | Body::Around(..) | Body::Given => None,
        }
    }

    /// Returns the templates of the request.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let body = match &self.body {
            Body::Json(template) | Body::Lines(template) | Body::Text(template) => [Some(template), None],
            Body::Around(before, after) => [Some(before), Some(after)],
            Body::None | Body::Batches(_) | Body::Given => [None, None],
        };
        [&self.line, &self.fields.template].into_iter().chain(body.into_iter().flatten())
    }

    /// Renders the request to `host` into `buffers`, with the drawn and captured `values`. Allocates nothing in the
    /// steady state, unless it is signed. The error says why it cannot be signed.
    pub fn render<'a>(
        &'a self,
        host: &Host,
        access: &Access,
        values: &Values,
        buffers: &'a mut Buffers,
    ) -> Result<Rendered<'a>, String> {
        let Buffers { head, body, compressed, scratch, carried, only, given, seen } = buffers;
        head.clear();
        if !matches!(self.body, Body::Given) {
            body.clear();
        }
        let mut documents = 0;
        match &self.body {
            Body::None => {}
            Body::Given => documents = *given,
            Body::Json(template) | Body::Lines(template) | Body::Text(template) if template.fixed().is_some() => {}
            Body::Json(template) | Body::Lines(template) | Body::Text(template) => template.render(values, body),
            Body::Around(before, after) => {
                before.render(values, body);
                body.extend_from_slice(carried);
                after.render(values, body);
            }
            Body::Batches(batches) => {
                scratch.clear();
                documents = batches.append(values.draw, scratch, body);
                if !only.is_empty() {
                    documents = batches.keep(body, only);
                }
            }
        }
        self.line.render(values, head);
        if !self.fields.host {
            head.extend_from_slice(host.field(access.tls.is_some()));
        }
        self.fields.template.render(values, head);
        if !self.fields.content_type {
            head.extend_from_slice(self.body.content_type());
        }
        if let Some(trace) = &values.draw.trace {
            trace.append_header(head);
        }
        let mut body = self.body(body);
        if access.compress && body.len() >= compress::LEAST {
            compress::gzip(body, compressed);
            body = compressed;
            head.extend_from_slice(b"content-encoding: gzip\r\n");
        }
        if !self.fields.authorization {
            access.authorization.append(seen, head, body)?;
        }
        head.extend_from_slice(b"content-length: ");
        push_u64(head, body.len() as u64);
        head.extend_from_slice(b"\r\n\r\n");
        if body.len() > COPIED {
            return Ok(Rendered { parts: [head, body], documents });
        }
        head.extend_from_slice(body);
        Ok(Rendered { parts: [head, b""], documents })
    }

    /// Returns the first line and the body, before compression, of the last request rendered into `buffers`.
    pub fn rendered<'a>(&'a self, buffers: &'a Buffers) -> (&'a [u8], &'a [u8]) {
        let end = memchr::memchr(b'\r', &buffers.head).unwrap_or(buffers.head.len());
        (&buffers.head[..end], self.body(&buffers.body))
    }

    /// Returns the fixed body if there is one, otherwise the rendered body.
    fn body<'a>(&'a self, rendered: &'a [u8]) -> &'a [u8] {
        match &self.body {
            Body::Json(template) | Body::Lines(template) | Body::Text(template) => template.fixed().unwrap_or(rendered),
            Body::None | Body::Batches(_) | Body::Given | Body::Around(..) => rendered,
        }
    }
}
