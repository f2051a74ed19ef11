//! A request that is built beforehand as far as it can be: rendering copies what is fixed and fills what is not.

use std::sync::Arc;

use loadframe_engine::corpus::Corpus;
use loadframe_engine::digits::push_u64;
use loadframe_engine::draw::Draw;
use loadframe_engine::plan::PlanError;
use loadframe_engine::template::Template;
use loadframe_engine::variables::Variables;
use serde_json::Value;

use super::hosts::Host;

/// A method and what stands in the first line after it, to be completed by [`Line::finish`].
pub struct Line<'a> {
    variables: &'a Variables,
    template: Template,
    bodyless: bool,
    has_query: bool,
}

/// The body of a request.
#[derive(Debug)]
pub enum Body {
    /// There is none, nor will the server expect one.
    None,
    /// JSON.
    Json(Template),
    /// So many documents of a corpus, each under an action line.
    Bulk(Bulk),
}

/// Request k carries documents `k size` to `(k + 1) size`; after the last comes the first.
#[derive(Debug)]
pub struct Bulk {
    /// Where the documents come from.
    pub corpus: Arc<Corpus>,
    /// How many documents a request carries at most.
    pub size: u64,
    /// The line above each document.
    pub action: &'static [u8],
}

impl Bulk {
    /// How many requests send each document once.
    pub fn requests(&self) -> u64 {
        self.corpus.documents().div_ceil(self.size)
    }
}

/// A request without its randomness.
#[derive(Debug)]
pub struct Request {
    line: Template,
    body: Body,
    /// It is a HEAD request, whose answer has no body.
    pub bodyless: bool,
    /// The request as it goes to each host, if there is nothing random in it.
    fixed: Option<Vec<Vec<u8>>>,
}

/// Buffers that a client renders its requests into.
#[derive(Debug, Default)]
pub struct Buffers {
    head: Vec<u8>,
    body: Vec<u8>,
}

/// A request, ready to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'a> {
    /// To be sent one after the other.
    pub parts: [&'a [u8]; 2],
    /// How many documents it carries.
    pub documents: u64,
}

impl<'a> Line<'a> {
    /// `method` and a slash.
    pub fn new(method: &str, variables: &'a Variables) -> Self {
        let mut template = Template::default();
        template.push_literal(method);
        template.push_literal(" ");
        Self { variables, template, bodyless: method == "HEAD", has_query: false }
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
                return Err(PlanError(format!(
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

    /// The request with this line and `body`; one variant for each of `hosts` is built now if nothing is random.
    pub fn finish(mut self, body: Body, hosts: &[Host]) -> Request {
        self.template.push_literal(" HTTP/1.1\r\n");
        let mut request = Request { line: self.template, body, bodyless: self.bodyless, fixed: None };
        let fixed_body = match &request.body {
            Body::None => Some(&b""[..]),
            Body::Json(template) => template.fixed(),
            Body::Bulk(_) => None,
        };
        if let (Some(line), Some(body)) = (request.line.fixed(), fixed_body) {
            let whole = |host: &Host| {
                let mut bytes = line.to_vec();
                request.push_fields(host, body.len(), &mut bytes);
                bytes.extend_from_slice(body);
                bytes
            };
            request.fixed = Some(hosts.iter().map(whole).collect());
        }
        request
    }
}

impl Request {
    /// How many requests send each document once, if it sends documents of a corpus.
    pub fn requests(&self) -> Option<u64> {
        match &self.body {
            Body::Bulk(bulk) => Some(bulk.requests()),
            Body::None | Body::Json(_) => None,
        }
    }

    /// What `draw` makes of the request to host number `index`. In the steady state nothing is allocated.
    pub fn render<'a>(
        &'a self,
        (index, host): (usize, &Host),
        variables: &Variables,
        draw: &Draw,
        buffers: &'a mut Buffers,
    ) -> Rendered<'a> {
        if let Some(fixed) = &self.fixed {
            return Rendered { parts: [&fixed[index], b""], documents: 0 };
        }
        let Buffers { head, body } = buffers;
        head.clear();
        body.clear();
        let documents = match &self.body {
            Body::None => 0,
            Body::Json(template) => {
                template.render(variables, draw, body);
                0
            }
            Body::Bulk(bulk) => {
                let first = draw.k % bulk.requests() * bulk.size;
                bulk.corpus.append(first, bulk.size, bulk.action, body)
            }
        };
        self.line.render(variables, draw, head);
        self.push_fields(host, body.len(), head);
        Rendered { parts: [head, body], documents }
    }

    fn push_fields(&self, host: &Host, length: usize, head: &mut Vec<u8>) {
        head.extend_from_slice(&host.field);
        head.extend_from_slice(match self.body {
            Body::None => b"content-length: 0\r\n\r\n",
            Body::Json(_) => b"content-type: application/json\r\ncontent-length: ",
            Body::Bulk(_) => b"content-type: application/x-ndjson\r\ncontent-length: ",
        });
        if !matches!(self.body, Body::None) {
            push_u64(head, length as u64);
            head.extend_from_slice(b"\r\n\r\n");
        }
    }
}
