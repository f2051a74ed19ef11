//! One connection to one node: opening, authentication and exchanges.

use std::time::Duration;

use loadframe_engine::driver::Failure;
use loadframe_engine::plan::access::{Auth, Secret};
use loadframe_engine::plan::{PlanError, Target};

use super::error::refusal;
use super::request::Writer;
use super::resp::{Answers, Item, Reader};
use crate::net::client::Client;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::route::Wired;
use crate::net::target_node::Host;
use crate::net::tls::Tls;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;

/// Options for connections to the nodes.
#[derive(Debug)]
pub struct ConnectOptions {
    /// `None`: unencrypted.
    pub tls: Option<Tls>,
    user: Option<(String, Secret)>,
    /// The default timeout of an operation.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// Reads certificates. Refuses credentials that the protocol does not support.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        if target.compress {
            return Err(PlanError::new("this protocol's requests are not compressed"));
        }
        let user = match &target.auth {
            None => None,
            Some(Auth::Basic { user, password }) => Some((user.clone(), password.clone())),
            Some(_) => {
                return Err(PlanError::new("this protocol has users with passwords, but no API keys or tokens"));
            }
        };
        Ok(Self { tls: target.tls.as_ref().map(|tls| Tls::new(tls, None)).transpose()?, user, timeout: target.timeout })
    }

    /// Returns options without encryption and credentials.
    #[cfg(test)]
    pub fn plain(timeout: Duration) -> Self {
        Self { tls: None, user: None, timeout }
    }
}

/// A connection to one node.
pub struct NodeConnection {
    /// The connection, if usable.
    pub wire: Option<Wire>,
    client: Client<Answers>,
}

impl Default for NodeConnection {
    fn default() -> Self {
        Self { wire: None, client: Client::with(Answers::default()) }
    }
}

impl Wired for NodeConnection {
    fn wire(&mut self) -> &mut Option<Wire> {
        &mut self.wire
    }
}

impl NodeConnection {
    /// Connects and authenticates, unless the connection is usable.
    pub async fn open(&mut self, host: &Host, connect_options: &ConnectOptions, limit: Limit) -> Result<(), Failure> {
        let Some(setup) = Wire::open_for(&mut self.wire, host, connect_options.tls.as_ref(), limit).await? else {
            return Ok(());
        };
        if let Some((user, password)) = &connect_options.user {
            let words = [b"AUTH", user.as_bytes(), password.expose().as_bytes()];
            let mut answer = self.ask(&words, limit).await?;
            if let Some(Item::Error(words)) = answer.next() {
                let refused = refusal(words);
                self.wire = None;
                return Err(refused);
            }
        }
        setup.finish();
        Ok(())
    }

    /// Sends one command and returns its answer.
    pub async fn ask(&mut self, words: &[&[u8]], limit: Limit) -> Result<Reader<'_>, Failure> {
        let (mut request, mut room) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut request, &mut room);
        writer.begin(words.len());
        words.iter().for_each(|word| writer.word(word));
        let (_, outcome) = self.speak([&request, b""], 1, limit).await;
        outcome.map_err(Failure::from)?;
        Ok(self.answers())
    }

    /// Sends `commands` commands and waits for all their answers.
    pub async fn speak(
        &mut self,
        parts: [&[u8]; 2],
        commands: usize,
        limit: Limit,
    ) -> (Exchanged, Result<(), Trouble>) {
        self.client.answer_mut().begin(commands);
        self.client.speak(&mut self.wire, parts, limit).await
    }

    /// The answers of the last exchange, if it succeeded.
    pub fn answers(&self) -> Reader<'_> {
        self.client.answer().read()
    }

    /// Whether the last exchange received all its answers.
    pub fn is_answered(&self) -> bool {
        self.client.answer().is_complete()
    }
}
