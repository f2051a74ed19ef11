//! One connection to one node: opening, authentication and exchanges.

use loadframe_engine::driver::Failure;

use super::error::refusal;
use super::request::Writer;
use super::resp::{Answers, Item, Reader};
use crate::net::client::Client;
use crate::net::connect_options::ConnectOptions;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;
use crate::pipeline::Pipelined;

/// A connection to one node.
pub struct NodeConnection {
    /// The connection, if usable.
    pub wire: Option<Wire>,
    client: Client<Answers>,
}

impl Default for NodeConnection {
    /// Creates it without a connection.
    fn default() -> Self {
        Self { wire: None, client: Client::with(Answers::default()) }
    }
}

impl Wired for NodeConnection {
    /// Returns the socket, `None` while disconnected.
    fn wire(&mut self) -> &mut Option<Wire> {
        &mut self.wire
    }
}

impl Pipelined for NodeConnection {
    /// Sends `requests`, which are `count` commands, and waits for all their answers. Fails without a connection, and
    /// if not all answers arrive.
    async fn send(&mut self, requests: &[u8], count: usize, limit: Limit) -> (Exchanged, Result<(), Trouble>) {
        self.speak([requests, b""], count, limit).await
    }
}

impl NodeConnection {
    /// Connects and authenticates, unless the connection is usable. After refused credentials, closes the connection
    /// and returns the server's error.
    pub async fn open(&mut self, host: &Host, connect_options: &ConnectOptions, limit: Limit) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        self.enter(connect_options, limit).await?;
        setup.finish();
        Ok(())
    }

    /// Connects and authenticates, replacing an existing connection, for a query of the driver itself: this is not
    /// recorded as a client's setup or reconnection. After refused credentials, closes the connection and fails.
    pub async fn connect(
        &mut self,
        host: &Host,
        connect_options: &ConnectOptions,
        limit: Limit,
    ) -> Result<(), Failure> {
        self.wire = Some(Wire::connect(host, connect_options.tls.as_ref(), limit).await?);
        self.enter(connect_options, limit).await
    }

    /// Authenticates if there is a user. After refused credentials, closes the connection and returns the server's
    /// error.
    async fn enter(&mut self, connect_options: &ConnectOptions, limit: Limit) -> Result<(), Failure> {
        if let Some((user, password)) = &connect_options.user {
            let words = [b"AUTH", user.as_bytes(), password.expose().as_bytes()];
            let mut answer = self.ask(&words, limit).await?;
            if let Some(Item::Error(words)) = answer.next() {
                let refused = refusal(words);
                self.wire = None;
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Sends one command of these words over the open connection and returns its answer, which may be an error reply.
    pub async fn ask(&mut self, words: &[&[u8]], limit: Limit) -> Result<Reader<'_>, Failure> {
        let (mut request, mut buffers) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut request, &mut buffers);
        writer.begin(words.len());
        words.iter().for_each(|word| writer.word(word));
        let (_, outcome) = self.speak([&request, b""], 1, limit).await;
        outcome.map_err(Failure::from)?;
        Ok(self.answers())
    }

    /// Sends `parts`, which together are `commands` commands, over the open connection and waits for all their answers.
    /// Error replies are not failures here.
    pub async fn speak(
        &mut self,
        parts: [&[u8]; 2],
        commands: usize,
        limit: Limit,
    ) -> (Exchanged, Result<(), Trouble>) {
        self.client.answer_mut().begin(commands);
        self.client.speak(&mut self.wire, parts, limit).await
    }

    /// Returns the answers of the last exchange, if it succeeded.
    pub fn answers(&self) -> Reader<'_> {
        self.client.answer().read()
    }

    /// Returns whether the last exchange received all its answers.
    pub fn is_answered(&self) -> bool {
        self.client.answer().is_complete()
    }
}
