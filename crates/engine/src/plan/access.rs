//! Access to a target: TLS and credentials of a plan. Secrets are never printed.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::Value;

/// Verification of the target's certificate, and the client's own certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of trusted authorities; by default those of the system.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// PEM file of the client's private key.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Whether the target's certificate is verified.
    #[serde(default = "yes")]
    pub verify: bool,
}

/// The credentials.
#[derive(Clone, Debug)]
pub enum Auth {
    /// A user with a password.
    Basic {
        /// The user's name.
        user: String,
        /// The user's password.
        password: Secret,
    },
    /// An API key, encoded as the target requires.
    ApiKey(Secret),
    /// A bearer token.
    Bearer(Secret),
}

/// Text that `Debug` output hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text, for sending.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Auth {
    /// Not derived: a derived error quotes the unexpected value, which may be a secret.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || D::Error::custom("auth wants {basic: {user, password}}, {api_key: TEXT} or {bearer: TEXT}");
        let form = Value::deserialize(deserializer)?;
        let form = form.as_object().filter(|form| form.len() == 1).ok_or_else(wrong)?;
        let (kind, argument) = form.iter().next().ok_or_else(wrong)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let auth = match (kind.as_str(), argument) {
            ("api_key", key) => text(key).map(|key| Self::ApiKey(Secret(key))),
            ("bearer", token) => text(token).map(|token| Self::Bearer(Secret(token))),
            ("basic", Value::Object(basic)) if basic.len() == 2 => {
                match (basic.get("user").and_then(text), basic.get("password").and_then(text)) {
                    (Some(user), Some(password)) => Some(Self::Basic { user, password: Secret(password) }),
                    _ => None,
                }
            }
            _ => None,
        };
        auth.ok_or_else(wrong)
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_credentials_is_read_and_none_is_shown() {
        for form in
            [r#"{"basic": {"user": "ann", "password": "hush"}}"#, r#"{"api_key": "hush"}"#, r#"{"bearer": "hush"}"#]
        {
            let auth: Auth = serde_json::from_str(form).unwrap();
            let secret = match &auth {
                Auth::Basic { password: secret, .. } | Auth::ApiKey(secret) | Auth::Bearer(secret) => secret,
            };
            assert_eq!(secret.expose(), "hush");
            assert!(!format!("{auth:?}").contains("hush"));
        }
    }

    #[test]
    fn unreadable_credentials_are_not_quoted() {
        for form in [
            r#""hush""#,
            r#"{"hush": 1}"#,
            r#"{"basic": "hush"}"#,
            r#"{"basic": {"user": "ann", "password": 123456}}"#,
            r#"{"basic": {"user": "ann", "passwd": "hush"}}"#,
            r#"{"api_key": ["hush"]}"#,
            r#"{"api_key": "hush", "bearer": "hush"}"#,
        ] {
            let error = serde_json::from_str::<Auth>(form).unwrap_err().to_string();
            assert!(error.starts_with("auth wants {basic: {user, password}}"), "{error}");
            assert!(!error.contains("hush") && !error.contains("123456"), "{error}");
        }
    }

    #[test]
    fn certificates_are_verified_unless_disabled() {
        assert!(serde_json::from_str::<Tls>("{}").unwrap().verify);
        assert!(!serde_json::from_str::<Tls>(r#"{"verify": false}"#).unwrap().verify);
    }
}
