//! Access to the target: TLS, and the `authorization` header.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loadframe_engine::plan::access::Auth;
use loadframe_engine::plan::{PlanError, Target};

use crate::net::tls::Tls;

/// Access settings of all hosts of a target.
#[derive(Debug, Default)]
pub struct Access {
    /// `None` means no encryption.
    pub tls: Option<Tls>,
    /// The credentials.
    pub authorization: Authorization,
    /// Whether to compress bodies.
    pub compress: bool,
}

/// The `authorization` header with its line end. Empty without credentials.
#[derive(Default)]
pub struct Authorization(Vec<u8>);

impl Access {
    /// Reads certificates. The error names credentials that cannot be sent.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        let tls = target.tls.as_ref().map(|tls| Tls::new(tls, Some("http/1.1"))).transpose()?;
        let authorization = target.auth.as_ref().map(Authorization::new).transpose()?.unwrap_or_default();
        Ok(Self { tls, authorization, compress: target.compress })
    }
}

impl Authorization {
    fn new(auth: &Auth) -> Result<Self, PlanError> {
        let value = match auth {
            Auth::Basic { user, .. } if user.contains(':') => {
                return Err(PlanError::new("a user's name with a colon cannot be sent"));
            }
            Auth::Basic { user, password } => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{}", password.expose())))
            }
            Auth::ApiKey(key) => format!("ApiKey {}", visible("API key", key.expose())?),
            Auth::Bearer(token) => format!("Bearer {}", visible("token", token.expose())?),
        };
        Ok(Self(format!("authorization: {value}\r\n").into_bytes()))
    }

    /// Returns the header line.
    pub fn field(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}

/// Checks that a secret is not empty and is printable ASCII. Other characters could end the header or start another.
fn visible<'a>(what: &str, secret: &'a str) -> Result<&'a str, PlanError> {
    if !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(secret)
    } else {
        Err(PlanError::new(format!("the {what} is empty, or has characters that a head cannot carry")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn field(auth: Value) -> Result<String, PlanError> {
        let auth: Auth = serde_json::from_value(auth).unwrap();
        Authorization::new(&auth).map(|authorization| String::from_utf8(authorization.0).unwrap())
    }

    #[test]
    fn credentials_become_the_field_that_their_scheme_wants() {
        let basic = json!({"basic": {"user": "Aladdin", "password": "open sesame"}});
        // Example from RFC 7617, section 2.
        assert_eq!(field(basic).unwrap(), "authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");
        assert_eq!(field(json!({"api_key": "a2V5"})).unwrap(), "authorization: ApiKey a2V5\r\n");
        assert_eq!(field(json!({"bearer": "a.b-c"})).unwrap(), "authorization: Bearer a.b-c\r\n");
    }

    #[test]
    fn secrets_that_would_break_the_head_are_refused_and_hidden() {
        for auth in [json!({"api_key": "hush\r\nhost: x"}), json!({"bearer": "hush hush"}), json!({"bearer": ""})] {
            let error = field(auth).unwrap_err().message;
            assert!(error.contains("characters that a head cannot carry") && !error.contains("hush"), "{error}");
        }
        let error = field(json!({"basic": {"user": "a:b", "password": "hush"}})).unwrap_err().message;
        assert_eq!(error, "a user's name with a colon cannot be sent");
        assert!(field(json!({"basic": {"user": "ann", "password": "hush\r\nhost: x"}})).is_ok(), "it is encoded");
    }

    #[test]
    fn no_credentials_are_shown() {
        let target = json!({"driver": "search", "auth": {"bearer": "hush"}, "compress": true});
        let target: Target = serde_json::from_value(target).unwrap();
        let access = Access::new(&target).unwrap();
        assert_eq!(access.authorization.field(), b"authorization: Bearer hush\r\n");
        assert!(!format!("{access:?} {target:?}").contains("hush"));
    }
}
