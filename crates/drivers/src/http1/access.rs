//! Access to the target: TLS, and the `authorization` header.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use loadframe_engine::plan::access::Auth;
use loadframe_engine::plan::{PlanError, Target};

use super::aws::{self, Identity, Scope};
use crate::net::tls::Tls;
use crate::net::watched_file::{Seen, WatchedFile};

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

/// The credentials, if any.
#[derive(Default)]
pub struct Authorization {
    source: Source,
    /// For signatures.
    scope: Option<Scope>,
}

/// Source of credentials.
enum Source {
    Fixed(Credential),
    File(WatchedFile<Credential>),
}

/// Credentials in the form that requests use.
pub enum Credential {
    /// The `authorization` header with its line end. Empty without credentials.
    Header(Vec<u8>),
    /// A key that signs requests.
    Key(Identity),
}

impl Default for Source {
    /// Creates a source without credentials.
    fn default() -> Self {
        Self::Fixed(Credential::Header(Vec::new()))
    }
}

impl Access {
    /// Reads the target's certificates and credentials, and whether it compresses bodies. Refuses credentials that a
    /// header cannot carry.
    pub fn new(target: &Target) -> Result<Self, PlanError> {
        let tls = target.tls.as_ref().map(|tls| Tls::new(tls, Some("http/1.1"))).transpose()?;
        let new = |auth| Authorization::new(auth, target.auth_file.clone());
        let authorization = target.auth.as_ref().map(new).transpose()?.unwrap_or_default();
        Ok(Self { tls, authorization, compress: target.compress })
    }
}

impl Authorization {
    /// Creates the credentials; refuses characters that a header cannot carry. If `file` is given, a thread reads them again
    /// from it whenever it changes; unusable contents are ignored.
    pub fn new(auth: &Auth, file: Option<PathBuf>) -> Result<Self, PlanError> {
        let first = Credential::new(auth)?;
        let scope = match auth {
            Auth::Aws { service, region, .. } => Some(Scope::new(service, region)),
            Auth::Basic { .. } | Auth::ApiKey(_) | Auth::Bearer(_) => None,
        };
        let source = match file {
            None => Source::Fixed(first),
            Some(path) => {
                let auth = auth.clone();
                Source::File(WatchedFile::new(path, first, move |text| Credential::new(&auth.renewed(text)?).ok()))
            }
        };
        Ok(Self { source, scope })
    }

    /// Returns the `authorization` header line; empty without credentials, for keys that sign, and for credentials of a
    /// file.
    pub fn field(&self) -> &[u8] {
        match &self.source {
            Source::Fixed(Credential::Header(line)) => line,
            Source::Fixed(Credential::Key(_)) | Source::File(_) => b"",
        }
    }

    /// Appends the header lines that authenticate a request with this `head` and `body`. `seen` caches the credentials.
    /// The error says why the request cannot be signed.
    pub fn append(&self, seen: &mut Seen<Credential>, head: &mut Vec<u8>, body: &[u8]) -> Result<(), String> {
        let credential = match &self.source {
            Source::Fixed(credential) => credential,
            Source::File(file) => file.latest(seen),
        };
        match (credential, &self.scope) {
            (Credential::Key(identity), Some(scope)) => scope.sign(identity, SystemTime::now(), head, body),
            (Credential::Header(line), _) => {
                head.extend_from_slice(line);
                Ok(())
            }
            (Credential::Key(_), None) => Ok(()),
        }
    }
}

impl Authorization {
    /// Returns the names and values of the headers that authenticate a request of another client.
    /// `headers` belong to the request, and `path` includes the query string. The error says why the request cannot be
    /// signed.
    pub fn headers(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>, String> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let given = head.len();
        let mut head = head.into_bytes();
        self.append(&mut None, &mut head, body)?;
        let added = String::from_utf8_lossy(&head[given..]).into_owned();
        let lines = added.split_terminator("\r\n").filter_map(|line| line.split_once(": "));
        Ok(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl Credential {
    /// Builds the header, or the signing key. Refuses a user name with a colon, and a key or token that a header cannot
    /// carry.
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
            Auth::Aws { keys, .. } => return Ok(Self::Key(aws::identity(keys))),
        };
        Ok(Self::Header(format!("authorization: {value}\r\n").into_bytes()))
    }
}

impl fmt::Debug for Authorization {
    /// Hides the credentials: writes `***`, or `none` without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = matches!(&self.source, Source::Fixed(Credential::Header(line)) if line.is_empty());
        f.write_str(if none { "none" } else { "***" })
    }
}

/// Returns the secret if it is printable ASCII without spaces, and not empty. Other characters could end the header or
/// start another. `what` names the secret in the error.
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

    /// Returns the `authorization` header line of credentials in a plan.
    fn field(auth: Value) -> Result<String, PlanError> {
        let auth: Auth = serde_json::from_value(auth).unwrap();
        Authorization::new(&auth, None).map(|authorization| String::from_utf8(authorization.field().to_vec()).unwrap())
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

    /// Checks that debug output hides the credentials.
    #[test]
    fn no_credentials_are_shown() {
        let target = json!({"driver": "search", "auth": {"bearer": "hush"}, "compress": true});
        let target: Target = serde_json::from_value(target).unwrap();
        let access = Access::new(&target).unwrap();
        assert_eq!(access.authorization.field(), b"authorization: Bearer hush\r\n");
        assert!(!format!("{access:?} {target:?}").contains("hush"));
    }
}
