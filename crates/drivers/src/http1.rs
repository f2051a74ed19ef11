//! HTTP/1.1 as the drivers need it: one [`request`] at a time for each [`client`], its [`answer`] framed and handed
//! over to be judged. It knows no operation and what no answer means.
//!
//! A connection keeps to one of the target's [`hosts`] until that refuses it.

pub mod access;
pub mod answer;
pub mod client;
pub mod compress;
pub mod hosts;
pub mod request;
pub mod status;
pub mod text;
pub mod tls;
pub mod wire;

use std::fmt::Display;
use std::time::{Duration, Instant};

use loadframe_engine::draw::Draw;
use loadframe_engine::driver::{Exchange, Failure, Reply};
use loadframe_engine::plan::{PlanError, Target};
use loadframe_engine::variables::Variables;

use self::access::Access;
use self::answer::Answer;
use self::client::{Client, Exchanged, Trouble};
use self::hosts::Host;
use self::request::{Buffers, Request};
use self::wire::Wire;

/// How long a host is waited for before the load.
const PATIENCE: Duration = Duration::from_secs(5);

/// One target, as all its clients share it.
#[derive(Debug)]
pub struct Http1 {
    hosts: Vec<Host>,
    access: Access,
    timeout: Duration,
}

/// What one client holds.
pub struct Connection {
    /// The place of its host among the target's.
    host: usize,
    wire: Option<Wire>,
    client: Client,
    buffers: Buffers,
}

/// A request that was answered; the answer lies with the connection.
#[derive(Debug)]
pub struct Answered {
    exchanged: Exchanged,
    node: u16,
    /// How many documents the request carried.
    pub documents: u64,
}

impl Http1 {
    /// Resolves the target's hosts; does not connect.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        if target.hosts.is_empty() {
            return Err(PlanError("the target has no hosts".to_owned()));
        }
        if target.hosts.len() > usize::from(u16::MAX) {
            return Err(PlanError(format!("{} hosts are more than {}", target.hosts.len(), u16::MAX)));
        }
        let hosts = target.hosts.iter().map(|host| Host::resolve(host)).collect::<Result<_, _>>()?;
        let timeout = duration(target.timeout).ok_or_else(|| no_timeout(target.timeout))?;
        let access = Access::new(target)?;
        Ok(Self { hosts, access, timeout })
    }

    /// How long an answer is waited for, unless the operation says otherwise.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Says of each host whether its end of TLS and ours will ever agree; a host that is not there is no error. All
    /// are asked at once.
    pub async fn verify(&self) -> Result<(), PlanError> {
        let Some(tls) = &self.access.tls else { return Ok(()) };
        let timeout = self.timeout.min(PATIENCE);
        let ask = |host: &Host| {
            let (host, tls) = (host.clone(), tls.clone());
            tokio::spawn(async move { Wire::refusal(&host, &tls, timeout).await })
        };
        let asked: Vec<_> = self.hosts.iter().map(ask).collect();
        for (host, asked) in self.hosts.iter().zip(asked) {
            if let Ok(Some(refusal)) = asked.await {
                return Err(PlanError(refusal).within(format!("host \"{}\"", host.text)));
            }
        }
        Ok(())
    }

    /// What client number `client` holds; it connects when it first asks.
    pub fn connection(&self, client: u64) -> Connection {
        let host = (client % self.hosts.len() as u64) as usize;
        Connection { host, wire: None, client: Client::new(), buffers: Buffers::default() }
    }

    /// Renders and sends a request and waits for the answer; the error is what became of a request without one. A
    /// connection that is not there, or no longer, is made first; a host that refuses it makes the client take the
    /// next one at the next call.
    pub async fn ask(
        &self,
        connection: &mut Connection,
        request: &Request,
        timeout: Duration,
        variables: &Variables,
        draw: &Draw,
    ) -> Result<Answered, Reply> {
        let Connection { host, wire, client, buffers } = connection;
        let node = *host as u16;
        let rendered = request.render(&self.hosts[*host], &self.access, variables, draw, buffers);
        let documents = rendered.documents;
        if !wire.as_mut().is_some_and(Wire::is_idle) {
            client.forget();
            let sent = Instant::now();
            match Wire::connect(&self.hosts[*host], self.access.tls.as_ref(), timeout).await {
                Ok(new) => *wire = Some(new),
                Err(trouble) => {
                    *host = (*host + 1) % self.hosts.len();
                    let exchanged = Exchanged { sent, done: Instant::now(), bytes_sent: 0, bytes_received: 0 };
                    return Err(Answered { exchanged, node, documents }.without(trouble));
                }
            }
        }
        let (exchanged, outcome) = client.exchange(wire, rendered.parts, request.bodyless, timeout).await;
        let answered = Answered { exchanged, node, documents };
        match outcome {
            Ok(()) => Ok(answered),
            Err(trouble) => Err(answered.without(trouble)),
        }
    }
}

impl Connection {
    /// The last answer; complete if its request has not failed.
    pub fn answer(&self) -> &Answer {
        self.client.answer()
    }

    /// The last request and its answer for people. Of the heads only the first lines: the rest is no secret's place.
    pub fn shown(&self, request: &Request, reply: &Reply) -> Exchange {
        let answer = match &reply.outcome {
            Err(failure) if !self.answer().is_complete() => failure.message.clone(),
            _ => text::message(self.answer().status_line(), self.answer().body()),
        };
        let (line, body) = request.rendered(&self.buffers);
        Exchange { request: text::message(line, body), answer }
    }
}

impl Answered {
    /// What became of the request, once the answer is judged.
    pub fn reply(self, documents: u64, outcome: Result<(), Failure>) -> Reply {
        let Self { exchanged: Exchanged { sent, done, bytes_sent, bytes_received }, node, .. } = self;
        Reply { sent, done, outcome, bytes_sent, bytes_received, documents, node }
    }

    /// What became of it without an answer: all that it carried has failed.
    fn without(self, Trouble { class, message }: Trouble) -> Reply {
        let items = self.documents.max(1);
        self.reply(0, Err(Failure { class, message, items }))
    }
}

/// Seconds that can be waited for: above 0, and so few that no clock overflows.
pub fn duration(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
}

/// The error for seconds that cannot.
pub fn no_timeout(seconds: impl Display) -> PlanError {
    PlanError(format!("\"timeout\" wants seconds above 0, not {seconds}"))
}
