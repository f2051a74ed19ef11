//! How nodes are approached, and a client of the official driver for one node.
//!
//! Each client is for one node alone and for no other: which node a request goes to is decided, and known, here.

use std::fmt;
use std::time::Duration;

use loadframe_engine::access::{Auth, Secret};
use loadframe_engine::plan::{PlanError, Target};
use mongodb::Client;
use mongodb::error::Result;
use mongodb::event::EventHandler;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::{ClientOptions, Credential, ServerAddress, Tls, TlsOptions};

/// Where all collections are.
pub const DATABASE: &str = "loadframe";

/// A node that is gone is waited for so long, for it may be back.
const SELECTION: Duration = Duration::from_secs(1);
/// Connections to a node that are opened at a time: as many clients begin at once.
const OPENING: u32 = 16;

/// How connections to the nodes are made.
#[derive(Clone)]
pub struct Terms {
    /// How long to wait for an answer, unless an operation says otherwise.
    pub timeout: Duration,
    user: Option<(String, Secret)>,
    tls: Option<TlsOptions>,
}

impl Terms {
    /// Says what the protocol, or the driver, has not.
    pub fn new(target: &Target) -> std::result::Result<Self, PlanError> {
        if target.compress {
            return Err(PlanError::new("this protocol's requests are not compressed here"));
        }
        let user = match &target.auth {
            None => None,
            Some(Auth::Basic { user, password }) => Some((user.clone(), password.clone())),
            Some(_) => {
                return Err(PlanError::new("this protocol has users with passwords, but no API keys or tokens"));
            }
        };
        let tls = target.tls.as_ref().map(|tls| {
            if tls.key.is_some() && tls.key != tls.certificate {
                let remedy = "put both into one file, and name it for both";
                return Err(PlanError::new(format!(
                    "the client's certificate and its key are one PEM file here; {remedy}"
                )));
            }
            let mut options = TlsOptions::default();
            options.ca_file_path.clone_from(&tls.ca);
            options.cert_key_file_path.clone_from(&tls.certificate);
            options.allow_invalid_certificates = Some(!tls.verify);
            Ok(options)
        });
        let timeout = target.timeout;
        Ok(Self { timeout, user, tls: tls.transpose()? })
    }

    /// A client for the node at `address`; `changed` is called when the node describes itself differently than before.
    /// It connects when it is first used.
    pub fn client(&self, address: &str, changed: impl Fn() + Send + Sync + 'static) -> Result<Client> {
        let mut options = ClientOptions::default();
        options.hosts = vec![ServerAddress::parse(address)?];
        options.direct_connection = Some(true);
        options.app_name = Some("loadframe".to_owned());
        // Who tries again is the engine's to decide, and a request that is sent twice is two requests.
        options.retry_reads = Some(false);
        options.retry_writes = Some(false);
        options.max_pool_size = Some(u32::MAX);
        options.max_connecting = Some(OPENING);
        options.connect_timeout = Some(self.timeout);
        options.server_selection_timeout = Some(self.timeout.min(SELECTION));
        options.tls = self.tls.clone().map(Tls::Enabled);
        options.credential = self.user.as_ref().map(|(user, password)| {
            Credential::builder().username(user.clone()).password(password.expose().to_owned()).build()
        });
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if matches!(event, SdamEvent::ServerDescriptionChanged(_)) {
                changed();
            }
        }));
        Client::with_options(options)
    }

    /// Unencrypted and without credentials.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { timeout: Duration::from_secs(1), user: None, tls: None }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms").field("timeout", &self.timeout).field("user", &self.user).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn terms(more: serde_json::Value) -> std::result::Result<Terms, String> {
        let mut target = json!({"driver": "mongodb", "hosts": ["127.0.0.1:1"]});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Terms::new(&serde_json::from_value(target).unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn what_the_driver_has_not_is_refused() {
        assert!(terms(json!({"compress": true})).unwrap_err().contains("not compressed"));
        assert!(terms(json!({"auth": {"bearer": "x"}})).unwrap_err().contains("no API keys or tokens"));
        assert!(terms(json!({"tls": {"certificate": "a.pem", "key": "b.pem"}})).unwrap_err().contains("one PEM file"));
        assert!(terms(json!({"tls": {"certificate": "a.pem", "key": "a.pem"}})).is_ok());
    }

    #[test]
    fn a_password_is_not_shown() {
        let terms = terms(json!({"auth": {"basic": {"user": "ann", "password": "hush"}}})).unwrap();
        assert!(format!("{terms:?}").contains("ann") && !format!("{terms:?}").contains("hush"));
    }
}
