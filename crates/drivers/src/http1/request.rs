//! A request that is built beforehand as far as it can be: rendering copies what is fixed and fills what is not.
//! The `host` and `authorization` headers, which the operation does not know, are added last.

use std::fmt::Debug;

use loadframe_engine::plan::PlanError;
use loadframe_engine::util::digits::push_u64;
use loadframe_engine::util::draw::Draw;
use loadframe_engine::workload::variables::template::Template;
use loadframe_engine::workload::variables::{Values, Variables};
use serde_json::Value;

use super::access::Access;
use super::answer;
use super::compress;
use crate::net::target_node::Host;

/// A method, the rest of the first line, and fields, to be completed by [`RequestHead::finish`].
pub struct RequestHead<'a> {
    variables: &'a Variables,
    template: Template,
    bodyless: bool,
    has_query: bool,
    fields: Fields,
}

/// Fields of a request's head that its operation sets.
#[derive(Debug, Default)]
struct Fields {
    template: Template,
    /// Those that the generator sets otherwise.
    host: bool,
    authorization: bool,
    content_type: bool,
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
    /// Lines of JSON: documents, and the action for each.
    Batches(Box<dyn Batches>),
    /// Lines of JSON that are in the buffer already; see [`Buffers::give`].
    Given,
    /// JSON, with what was taken from earlier answers between its two pieces; see [`Buffers::carried`].
    Around(Template, Template),
}

impl Body {
    /// The `content-type` field, with the line's end.
    fn content_type(&self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Json(_) | Self::Around(..) => b"content-type: application/json\r\n",
            Self::Text(_) => b"content-type: text/plain; charset=utf-8\r\n",
            Self::Lines(_) | Self::Batches(_) | Self::Given => b"content-type: application/x-ndjson\r\n",
        }
    }
}

/// Headers that determine where a message ends: operations cannot set them.
const FRAMING: [&str; 6] =
    ["content-length", "transfer-encoding", "connection", "content-encoding", "expect", "upgrade"];

/// The documents that successive requests carry.
pub trait Batches: Debug + Send + Sync {
    /// How many requests send each document once.
    fn requests(&self) -> u64;

    /// Appends the body of request `draw` to `body`; says how many documents it carries. `scratch` is empty room.
    fn append(&self, draw: &Draw, scratch: &mut Vec<u8>, body: &mut Vec<u8>) -> u64;

    /// Leaves only the documents at those places, which ascend, in a `body` that `append` has made; says how many these
    /// are.
    fn keep(&self, body: &mut Vec<u8>, places: &[u32]) -> u64;
}

/// A request without its randomness.
#[derive(Debug)]
pub struct Request {
    line: Template,
    fields: Fields,
    body: Body,
    /// What is done with the body of the answer.
    pub answer: answer::Body,
}

/// A body up to this size is copied behind its head: that costs less than to send two pieces at once.
const COPIED: usize = 4 << 10;

/// Buffers that a client renders its requests into.
#[derive(Default)]
pub struct Buffers {
    /// With a small body behind it.
    head: Vec<u8>,
    body: Vec<u8>,
    compressed: Vec<u8>,
    scratch: Vec<u8>,
    /// Taken from earlier answers, for a request that goes on from there.
    pub carried: Vec<u8>,
    /// The places of the documents that the next request carries, of those that it would carry; all if it is empty.
    pub only: Vec<u32>,
    /// How many documents the body has that was given.
    given: u64,
}

impl Buffers {
    /// Has `write` write the body of the next request, and say how many documents that is.
    pub fn give(&mut self, write: impl FnOnce(&mut Vec<u8>) -> u64) {
        self.given = write(&mut self.body);
    }
}

/// A request, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'a> {
    /// To be sent one after the other.
    pub parts: [&'a [u8]; 2],
    /// How many documents it carries.
    pub documents: u64,
}

impl<'a> RequestHead<'a> {
    /// `method` and a slash.
    pub fn new(method: &str, variables: &'a Variables) -> Self {
        let mut template = Template::default();
        template.push_literal(method);
        template.push_literal(" ");
        Self { variables, template, bodyless: method == "HEAD", has_query: false, fields: Fields::default() }
    }

    /// Appends `/text`, percent-encoded.
    pub fn segment(mut self, text: &str) -> Result<Self, PlanError> {
        self.template.push_literal("/");
        self.template.push_segment(text, self.variables)?;
        Ok(self)
    }

    /// Appends a whole path, with or without a query string, as it stands.
    pub fn path(mut self, text: &str) -> Result<Self, PlanError> {
        self.template.push_path(text, self.variables)?;
        self.has_query = text.contains('?');
        Ok(self)
    }

    /// Appends `name=value` to the query string.
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

    /// Appends a field to the head.
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
        self.fields.template.push_literal(name);
        self.fields.template.push_literal(": ");
        self.fields.template.push_field(value, self.variables).map_err(within)?;
        self.fields.template.push_literal("\r\n");
        Ok(self)
    }

    /// The request with this line, these fields and `body`.
    pub fn finish(mut self, body: Body) -> Request {
        self.template.push_literal(" HTTP/1.1\r\n");
        let answer = if self.bodyless { answer::Body::None } else { answer::Body::Read };
        Request { line: self.template, fields: self.fields, body, answer }
    }
}

impl Request {
    /// Says that the body of the answer is not needed.
    pub fn ignore_answer(&mut self) {
        if self.answer == answer::Body::Read {
            self.answer = answer::Body::Counted;
        }
    }

    /// How many requests send each document once, if it sends documents of a corpus.
    pub fn requests(&self) -> Option<u64> {
        match &self.body {
            Body::Batches(batches) => Some(batches.requests()),
            Body::None | Body::Json(_) | Body::Lines(_) | Body::Text(_) | Body::Around(..) | Body::Given => None,
        }
    }

    /// The templates that it is made of.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let body = match &self.body {
            Body::Json(template) | Body::Lines(template) | Body::Text(template) => [Some(template), None],
            Body::Around(before, after) => [Some(before), Some(after)],
            Body::None | Body::Batches(_) | Body::Given => [None, None],
        };
        [&self.line, &self.fields.template].into_iter().chain(body.into_iter().flatten())
    }

    /// What `values` make of the request to `host`. In the steady state nothing is allocated.
    pub fn render<'a>(
        &'a self,
        host: &Host,
        access: &Access,
        values: &Values,
        buffers: &'a mut Buffers,
    ) -> Rendered<'a> {
        let Buffers { head, body, compressed, scratch, carried, only, given } = buffers;
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
            head.extend_from_slice(&host.field);
        }
        if !self.fields.authorization {
            head.extend_from_slice(access.authorization.field());
        }
        self.fields.template.render(values, head);
        if !self.fields.content_type {
            head.extend_from_slice(self.body.content_type());
        }
        let mut body = self.body(body);
        if access.compress && body.len() >= compress::LEAST {
            compress::gzip(body, compressed);
            body = compressed;
            head.extend_from_slice(b"content-encoding: gzip\r\n");
        }
        head.extend_from_slice(b"content-length: ");
        push_u64(head, body.len() as u64);
        head.extend_from_slice(b"\r\n\r\n");
        if body.len() > COPIED {
            return Rendered { parts: [head, body], documents };
        }
        head.extend_from_slice(body);
        Rendered { parts: [head, b""], documents }
    }

    /// The first line and the body of the request that was last rendered into `buffers`.
    pub fn rendered<'a>(&'a self, buffers: &'a Buffers) -> (&'a [u8], &'a [u8]) {
        let end = memchr::memchr(b'\r', &buffers.head).unwrap_or(buffers.head.len());
        (&buffers.head[..end], self.body(&buffers.body))
    }

    /// The body, which is the one that was rendered unless it is always the same.
    fn body<'a>(&'a self, rendered: &'a [u8]) -> &'a [u8] {
        match &self.body {
            Body::Json(template) | Body::Lines(template) | Body::Text(template) => template.fixed().unwrap_or(rendered),
            Body::None | Body::Batches(_) | Body::Given | Body::Around(..) => rendered,
        }
    }
}
