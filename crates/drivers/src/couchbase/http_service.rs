//! Requests to the HTTP services of a node: configuration and statements.

use loadframe_engine::driver::Failure;
use loadframe_engine::util::trace::Trace;

use super::connection::ConnectOptions;
use crate::http1::answer::{Answer, Body};
use crate::http1::client::HttpClient;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::marks::Setup;
use crate::net::target_node::Host;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;

/// Sends a GET request for `path` on a new connection and returns the response, whose status is not checked. The
/// connection is not recorded as a client's setup or reconnection. Fails without a complete answer within `limit`.
pub async fn get(host: &Host, connect_options: &ConnectOptions, path: &str, limit: Limit) -> Result<Response, Failure> {
    let wire = Wire::connect(host, connect_options.tls.as_ref(), limit).await?;
    let mut service = Service { wire: Some(wire), ..Service::default() };
    let head = head("GET", path, host, connect_options, 0, None);
    let (_, outcome) = service.speak([&head, b""], limit).await;
    outcome?;
    Ok(Response(service.client))
}

/// A received HTTP response.
pub struct Response(HttpClient);

impl Response {
    /// Returns the HTTP status, such as 200.
    pub fn status(&self) -> u16 {
        self.0.answer().status()
    }

    /// Returns the response body.
    pub fn body(&self) -> &[u8] {
        self.0.answer().body()
    }
}

/// One client's connection to a service.
pub struct Service {
    wire: Option<Wire>,
    client: HttpClient,
    /// The connected address.
    at: String,
}

impl Default for Service {
    /// Creates it without a connection.
    fn default() -> Self {
        Self { wire: None, client: HttpClient::new(), at: String::new() }
    }
}

impl Service {
    /// Connects to a service, unless a usable connection to this host exists; closes one to another host. Fails if it
    /// is unreachable within `limit`.
    pub async fn open(&mut self, host: &Host, connect_options: &ConnectOptions, limit: Limit) -> Result<(), Failure> {
        if self.at != host.text {
            self.wire = None;
            self.at.clone_from(&host.text);
        }
        let setup = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await?;
        setup.into_iter().for_each(Setup::finish);
        Ok(())
    }

    /// Sends the head and the body of a request over the opened connection, and waits for the answer.
    /// [`Self::answer`] then returns it; its status is not judged. Returns times and bytes, and a failure if no
    /// complete answer arrives within `limit`.
    pub async fn speak(&mut self, parts: [&[u8]; 2], limit: Limit) -> (Exchanged, Result<(), Trouble>) {
        self.client.exchange(&mut self.wire, parts, Body::Read, limit).await
    }

    /// Returns the answer of the last exchange.
    pub fn answer(&self) -> &Answer {
        self.client.answer()
    }
}

/// Returns the head of a request with a JSON body of `length` bytes, or without a body if 0. `trace` becomes the header
/// `traceparent`.
pub fn head(
    method: &str,
    path: &str,
    host: &Host,
    connect_options: &ConnectOptions,
    length: usize,
    trace: Option<&Trace>,
) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    head.extend_from_slice(host.field(connect_options.tls.is_some()));
    head.extend_from_slice(connect_options.authorization.field());
    if let Some(trace) = trace {
        trace.append_header(&mut head);
    }
    if length > 0 {
        head.extend_from_slice(format!("content-type: application/json\r\ncontent-length: {length}\r\n").as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}
