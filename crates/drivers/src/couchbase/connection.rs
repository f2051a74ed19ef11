//! One connection to one node for one bucket: opening, authentication and exchanges.

use std::time::Duration;

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::{PlanError, Target};

use super::answer::refusal;
use super::packet::{Answers, Opcode, Packet};
use crate::http1::access::Access;
use crate::http1::access::Authorization;
use crate::net::client::Client;
use crate::net::connect_options::{User, user};
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::tls::Tls;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;
use crate::pipeline::Pipelined;

/// Features that the client requests: TCP no-delay, error texts, bucket selection, frames before the extras, durable
/// writes.
const FEATURES: [u16; 5] = [0x03, 0x07, 0x08, 0x10, 0x11];

/// Settings of connections to the nodes.
#[derive(Debug)]
pub struct ConnectOptions {
    /// `None` means no encryption.
    pub tls: Option<Tls>,
    user: Option<User>,
    /// The same credentials, for the HTTP services.
    pub authorization: Authorization,
    /// Default time limit for an answer. An operation may override it.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// Reads certificates and credentials. Refuses unusable certificates, compression, and credentials that the
    /// protocol does not support. Ignores `auth_file`.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        // Connections stay authenticated, so a file with a newer password changes nothing.
        let access = Access::new(&Target { auth_file: None, ..target.clone() })?;
        Ok(Self { tls: access.tls, user: user(target)?, authorization: access.authorization, timeout: target.timeout })
    }
}

/// One connection to one node for one bucket.
pub struct NodeConnection {
    wire: Option<Wire>,
    client: Client<Answers>,
    /// Whether the server supports durable writes.
    durable: bool,
}

impl Default for NodeConnection {
    /// Creates it without a connection.
    fn default() -> Self {
        Self { wire: None, client: Client::with(Answers::default()), durable: false }
    }
}

impl Wired for NodeConnection {
    /// Returns the socket, `None` while disconnected.
    fn wire(&mut self) -> &mut Option<Wire> {
        &mut self.wire
    }
}

impl Pipelined for NodeConnection {
    /// Sends `requests`, which are `count` requests, over the open connection, and waits for all of their answers.
    /// Does not check their status. Fails unless all answers arrive within `limit`.
    async fn send(&mut self, requests: &[u8], count: usize, limit: Limit) -> (Exchanged, Result<(), Trouble>) {
        self.speak(requests, count, limit).await
    }
}

impl NodeConnection {
    /// Connects, authenticates and selects the bucket, unless a usable connection exists. After a refusal, closes the
    /// connection and returns the failure.
    pub async fn open(
        &mut self,
        host: &Host,
        connect_options: &ConnectOptions,
        bucket: &str,
        limit: Limit,
    ) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        let opened = self.enter(connect_options, bucket, limit).await;
        match opened {
            Ok(_) => setup.finish(),
            Err(_) => self.wire = None,
        }
        opened
    }

    /// Negotiates features, logs in and selects the bucket. Notes whether the server supports durable writes. Fails if
    /// the server refuses the user or the bucket.
    async fn enter(&mut self, connect_options: &ConnectOptions, bucket: &str, limit: Limit) -> Result<(), Failure> {
        let features: Vec<u8> = FEATURES.iter().flat_map(|feature| feature.to_be_bytes()).collect();
        self.ask(Opcode::Hello, b"loadframe", &features, limit).await?;
        let granted = self.answers().read().next().is_some_and(|answer| {
            answer.status == 0 && answer.value.chunks_exact(2).any(|feature| feature == [0x00, 0x11])
        });
        self.durable = granted;
        if let Some((user, password)) = &connect_options.user {
            let words = [b"\0", user.as_bytes(), b"\0", password.expose().as_bytes()].concat();
            self.granted(Opcode::SaslAuth, b"PLAIN", &words, limit).await?;
        }
        self.granted(Opcode::SelectBucket, bucket.as_bytes(), b"", limit).await
    }

    /// Sends a request and waits for its answer. Fails if the answer's status is not 0.
    async fn granted(&mut self, opcode: Opcode, key: &[u8], value: &[u8], limit: Limit) -> Result<(), Failure> {
        self.ask(opcode, key, value, limit).await?;
        match self.answers().read().next() {
            Some(answer) if answer.status != 0 => Err(refusal(&answer)),
            _ => Ok(()),
        }
    }

    /// Sends a request and reads its answer, whose status is not checked. Fails without an answer.
    async fn ask(&mut self, opcode: Opcode, key: &[u8], value: &[u8], limit: Limit) -> Result<(), Failure> {
        let mut request = Vec::new();
        let packet = Packet::begin(&mut request, opcode, 0, None, &[], key);
        request.extend_from_slice(value);
        packet.end(&mut request);
        let (_, outcome) = self.speak(&request, 1, limit).await;
        Ok(outcome?)
    }

    /// Sends `requests`, which are `count` requests, over the open connection, and waits for all of their answers.
    /// Does not check their status. Returns times and bytes, also after a failure. Fails unless all answers arrive
    /// within `limit`.
    pub async fn speak(&mut self, requests: &[u8], count: usize, limit: Limit) -> (Exchanged, Result<(), Trouble>) {
        self.client.answer_mut().begin(count);
        self.client.speak(&mut self.wire, [requests, b""], limit).await
    }

    /// Returns the answers of the last exchange, if it succeeded.
    pub fn answers(&self) -> &Answers {
        self.client.answer()
    }

    /// Fails, with class Client, if the node does not support durable writes.
    pub fn require_durable(&self) -> Result<(), Failure> {
        if self.durable {
            return Ok(());
        }
        let message = "this server does not support durable writes".to_owned();
        Err(Failure::new(ErrorClass::Client, message))
    }
}
