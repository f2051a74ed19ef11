//! Access to a target: TLS and credentials of a plan. Secrets are never printed.

use std::fmt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};

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
    /// An AWS key, which signs each request (Signature Version 4).
    Aws {
        /// The service's name in signatures, such as `es`.
        service: String,
        /// The service's region.
        region: String,
        /// Section of the key in [`Target::auth_file`](super::Target::auth_file).
        profile: String,
        /// The key.
        keys: AwsKeys,
    },
}

impl Auth {
    /// Returns these credentials with the secret from `text`, or `None` if the text lacks it.
    /// `text`: contents of the secret's file, for AWS a credentials file.
    pub fn renewed(&self, text: &str) -> Option<Self> {
        let secret = || Some(text.trim_end_matches(['\r', '\n'])).filter(|secret| !secret.is_empty());
        Some(match self {
            Self::Basic { user, .. } => Self::Basic { user: user.clone(), password: Secret(secret()?.to_owned()) },
            // A key may be `id:key`, or the Base64 encoding of it.
            Self::ApiKey(_) if secret()?.contains(':') => Self::ApiKey(Secret(BASE64_STANDARD.encode(secret()?))),
            Self::ApiKey(_) => Self::ApiKey(Secret(secret()?.to_owned())),
            Self::Bearer(_) => Self::Bearer(Secret(secret()?.to_owned())),
            Self::Aws { service, region, profile, .. } => Self::Aws {
                service: service.clone(),
                region: region.clone(),
                profile: profile.clone(),
                keys: AwsKeys::in_profile(text, profile)?,
            },
        })
    }
}

impl AwsKeys {
    /// Returns the key in section `profile` of a shared credentials file (INI); `None` if the section, the key's
    /// identifier or its secret is missing.
    fn in_profile(text: &str, profile: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).skip_while(|line| section(line) != Some(profile)).skip(1);
        let entries: Vec<(&str, &str)> = lines
            .take_while(|line| section(line).is_none())
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let value = |wanted| entries.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
        Some(Self {
            access_key: value("aws_access_key_id")?,
            secret_key: Secret(value("aws_secret_access_key")?),
            session_token: value("aws_session_token").map(Secret),
        })
    }
}

/// Returns the name in a section's heading, such as `[default]`; `None` for other lines.
fn section(line: &str) -> Option<&str> {
    Some(line.strip_prefix('[')?.split_once(']')?.0.trim())
}

/// An AWS access key.
#[derive(Clone, Debug)]
pub struct AwsKeys {
    /// The key's identifier, which requests contain.
    pub access_key: String,
    /// The secret that signs.
    pub secret_key: Secret,
    /// Token of a temporary key.
    pub session_token: Option<Secret>,
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
    /// Wraps a text, so that `Debug` output hides it.
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    /// Writes `***` instead of the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Auth {
    /// Reads `{basic: ...}`, `{api_key: ...}`, `{bearer: ...}` or `{aws: ...}`. Not derived: a derived error quotes
    /// the unexpected value, which may be a secret.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = || {
            D::Error::custom("auth wants {basic: {user, password}}, {api_key: TEXT}, {bearer: TEXT} or {aws: {...}}")
        };
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
            ("aws", Value::Object(aws)) => aws_auth(aws),
            _ => None,
        };
        auth.ok_or_else(wrong)
    }
}

/// Returns the credentials in an `aws` object; `None` if a required member is missing or not a string.
fn aws_auth(form: &Map<String, Value>) -> Option<Auth> {
    let text = |name: &str| form.get(name).and_then(Value::as_str).map(str::to_owned);
    let keys = AwsKeys {
        access_key: text("access_key")?,
        secret_key: Secret(text("secret_key")?),
        session_token: text("session_token").map(Secret),
    };
    Some(Auth::Aws {
        service: text("service")?,
        region: text("region")?,
        profile: text("profile").unwrap_or_default(),
        keys,
    })
}

/// Returns true, the default of `verify`.
fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_credentials_is_read_and_none_is_shown() {
        for form in [
            r#"{"basic": {"user": "ann", "password": "hush"}}"#,
            r#"{"api_key": "hush"}"#,
            r#"{"bearer": "hush"}"#,
            r#"{"aws": {"service": "es", "region": "r", "access_key": "AK", "secret_key": "hush", "session_token": "hush"}}"#,
        ] {
            let auth: Auth = serde_json::from_str(form).unwrap();
            let secret = match &auth {
                Auth::Basic { password: secret, .. } | Auth::ApiKey(secret) | Auth::Bearer(secret) => secret,
                Auth::Aws { keys, .. } => &keys.secret_key,
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
            r#"{"aws": {"access_key": "AK", "secret_key": "hush"}}"#,
            r#"{"api_key": "hush", "bearer": "hush"}"#,
        ] {
            let error = serde_json::from_str::<Auth>(form).unwrap_err().to_string();
            assert!(error.starts_with("auth wants {basic: {user, password}}"), "{error}");
            assert!(!error.contains("hush") && !error.contains("123456"), "{error}");
        }
    }

    #[test]
    fn a_file_renews_the_secret_and_keeps_the_rest() {
        let read = |form: &str| serde_json::from_str::<Auth>(form).unwrap();
        match read(r#"{"basic": {"user": "ann", "password": "old"}}"#).renewed("new\n") {
            Some(Auth::Basic { user, password }) => assert_eq!((user.as_str(), password.expose()), ("ann", "new")),
            other => panic!("{other:?}"),
        }
        match read(r#"{"api_key": "old"}"#).renewed("id:key\n") {
            Some(Auth::ApiKey(key)) => assert_eq!(key.expose(), "aWQ6a2V5"),
            other => panic!("{other:?}"),
        }
        assert!(read(r#"{"bearer": "old"}"#).renewed("\n").is_none());
        let aws =
            r#"{"aws": {"service": "es", "region": "r", "profile": "load", "access_key": "a", "secret_key": "b"}}"#;
        let file = "[default]\naws_access_key_id = no\naws_secret_access_key = no\n# a note\n[load]\n\
                    aws_access_key_id = AK\naws_secret_access_key=s/e+c=\naws_session_token = t\n[other]\n";
        match read(aws).renewed(file) {
            Some(Auth::Aws { keys, service, .. }) => {
                assert_eq!((keys.access_key.as_str(), keys.secret_key.expose()), ("AK", "s/e+c="));
                assert_eq!((keys.session_token.unwrap().expose(), service.as_str()), ("t", "es"));
            }
            other => panic!("{other:?}"),
        }
        assert!(read(aws).renewed("[load]\naws_access_key_id = AK\n").is_none(), "half written");
    }

    #[test]
    fn certificates_are_verified_unless_disabled() {
        assert!(serde_json::from_str::<Tls>("{}").unwrap().verify);
        assert!(!serde_json::from_str::<Tls>(r#"{"verify": false}"#).unwrap().verify);
    }
}
