//! How nodes are approached.

use std::time::Duration;

use loadframe_engine::plan::access::Auth;
use loadframe_engine::plan::{PlanError, Target};

use super::login::User;
use crate::net::tls::Tls;

/// Where all collections are.
pub const DATABASE: &str = "loadframe";

/// How connections to the nodes are made.
#[derive(Debug)]
pub struct ConnectOptions {
    /// How long to wait for an answer, unless an operation says otherwise.
    pub timeout: Duration,
    /// `None`: without authentication.
    pub user: Option<User>,
    /// `None`: without encryption.
    pub tls: Option<Tls>,
}

impl ConnectOptions {
    /// Reads certificates. Refuses what the protocol does not have.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        if target.compress {
            return Err(PlanError::new("this protocol's requests are not compressed here"));
        }
        let user = match &target.auth {
            None => None,
            Some(Auth::Basic { user, password }) => Some(User::new(user.clone(), password.clone())),
            Some(_) => {
                return Err(PlanError::new("this protocol has users with passwords, but no API keys or tokens"));
            }
        };
        let tls = target.tls.as_ref().map(|tls| Tls::new(tls, None)).transpose()?;
        Ok(Self { timeout: target.timeout, user, tls })
    }

    /// Unencrypted and without credentials.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { timeout: Duration::from_secs(1), user: None, tls: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn connect_options(more: serde_json::Value) -> Result<ConnectOptions, String> {
        let mut target = json!({"driver": "mongodb", "hosts": ["127.0.0.1:1"]});
        target.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ConnectOptions::new(&serde_json::from_value(target).unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn what_the_protocol_has_not_is_refused() {
        assert!(connect_options(json!({"compress": true})).unwrap_err().contains("not compressed"));
        assert!(connect_options(json!({"auth": {"bearer": "x"}})).unwrap_err().contains("no API keys or tokens"));
    }

    #[test]
    fn a_password_is_not_shown() {
        let connect_options = connect_options(json!({"auth": {"basic": {"user": "ann", "password": "hush"}}})).unwrap();
        assert!(format!("{connect_options:?}").contains("ann") && !format!("{connect_options:?}").contains("hush"));
    }
}
