//! Connection settings.

use std::time::Duration;

use loadframe_engine::plan::access::Auth;
use loadframe_engine::plan::{PlanError, Target};

use super::login::User;
use crate::net::tls::Tls;

/// Default database of all collections.
pub const DATABASE: &str = "loadframe";

/// Settings of connections to the nodes.
#[derive(Debug)]
pub struct ConnectOptions {
    /// Default time limit for an answer. An operation may override it.
    pub timeout: Duration,
    /// `None` means no authentication.
    pub user: Option<User>,
    /// `None` means no encryption.
    pub tls: Option<Tls>,
}

impl ConnectOptions {
    /// Reads certificates. Refuses settings that the protocol does not support.
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

    /// Settings without encryption and credentials.
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
