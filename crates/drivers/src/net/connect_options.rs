//! Settings of connections, for protocols whose users have passwords.

use std::time::Duration;

use loadframe_engine::plan::access::{Auth, Secret};
use loadframe_engine::plan::{PlanError, Target};

use super::tls::Tls;

/// A user's name and password.
pub type User = (String, Secret);

/// Settings of connections to the nodes.
#[derive(Debug)]
pub struct ConnectOptions<U = User> {
    /// `None` means no encryption.
    pub tls: Option<Tls>,
    /// `None` means no authentication.
    pub user: Option<U>,
    /// Default time limit of an operation.
    pub timeout: Duration,
}

impl<U: From<User>> ConnectOptions<U> {
    /// Reads the certificates and the user of `target`. Refuses compression, credentials other than a password, and
    /// unusable certificates.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        let user = user(target)?.map(U::from);
        let tls = target.tls.as_ref().map(|tls| Tls::new(tls, None)).transpose()?;
        Ok(Self { tls, user, timeout: target.timeout })
    }

    /// Returns settings without encryption and credentials.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { tls: None, user: None, timeout: Duration::from_secs(1) }
    }
}

/// Returns the target's user and password, if it has one. Refuses compression and credentials other than a password.
pub fn user(target: &Target) -> Result<Option<User>, PlanError> {
    if target.compress {
        return Err(PlanError::new("this protocol does not compress requests: remove \"compress\""));
    }
    match &target.auth {
        None => Ok(None),
        Some(Auth::Basic { user, password }) => Ok(Some((user.clone(), password.clone()))),
        Some(_) => Err(PlanError::new("this protocol has users with passwords, but no API keys or tokens")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads the options of a target with `more` keys. Returns the error's message.
    fn connect_options(more: serde_json::Value) -> Result<ConnectOptions, String> {
        let mut target = json!({"driver": "redis", "hosts": ["127.0.0.1:1"]});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ConnectOptions::new(&serde_json::from_value(target).unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn compression_and_tokens_are_refused() {
        assert!(connect_options(json!({"compress": true})).unwrap_err().contains("remove \"compress\""));
        assert!(connect_options(json!({"auth": {"bearer": "x"}})).unwrap_err().contains("no API keys or tokens"));
    }

    #[test]
    fn passwords_are_hidden_in_debug_output() {
        let connect_options = connect_options(json!({"auth": {"basic": {"user": "ann", "password": "hush"}}})).unwrap();
        assert!(format!("{connect_options:?}").contains("ann") && !format!("{connect_options:?}").contains("hush"));
    }
}
