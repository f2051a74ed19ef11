//! Authentication by SCRAM (RFC 5802, RFC 7677) against the database `admin`.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::plan::access::Secret;
use md5::{Digest, Md5};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use crate::net::connect_options;

/// Size of the client's nonce, in bytes.
const NONCE: usize = 24;
/// Accepted iteration counts: from the minimum of RFC 7677 to a count that costs seconds.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;
/// Maximum number of cached keys. The servers of a cluster share one salt per mechanism.
const KEYS: usize = 16;

/// A user with a password, and a cache of derived keys.
pub struct User {
    name: String,
    password: Secret,
    /// Cached, because a derivation takes milliseconds and every connection needs a key.
    keys: Mutex<HashMap<Derivation, Vec<u8>>>,
}

/// Inputs of a key derivation: mechanism, salt and iterations.
type Derivation = (Mechanism, Vec<u8>, u32);

/// Hash function of the stored password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    Sha1,
    Sha256,
}

/// An authentication that waits for the server's first answer.
pub struct Login<'a> {
    user: &'a User,
    mechanism: Mechanism,
    /// The client's first message without its header.
    first: String,
    nonce: String,
}

impl From<connect_options::User> for User {
    /// Creates the user without cached keys.
    fn from((name, password): connect_options::User) -> Self {
        Self { name, password, keys: Mutex::default() }
    }
}

impl fmt::Debug for User {
    /// Writes the name without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Mechanism {
    /// Returns SCRAM-SHA-1 if `hello` lists only this mechanism for the user, else SCRAM-SHA-256.
    pub fn of(hello: &Document) -> Self {
        let named: Vec<&str> =
            hello.get_array("saslSupportedMechs").into_iter().flatten().filter_map(|name| name.as_str()).collect();
        if named.contains(&Self::Sha1.name()) && !named.contains(&Self::Sha256.name()) {
            Self::Sha1
        } else {
            Self::Sha256
        }
    }

    /// Returns the mechanism's name in commands.
    fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// Returns the keyed hash of a message by the mechanism's hash function.
    fn hmac(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }

    /// Returns the hash of `bytes` by the mechanism's hash function.
    fn hash(self, bytes: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
        };
        digest::digest(algorithm, bytes)
    }
}

impl User {
    /// Returns the user name in the form that `hello` expects, `admin.NAME`.
    pub fn of_admin(&self) -> String {
        format!("admin.{}", self.name)
    }

    /// Begins an authentication with a random nonce. Fails if the system has no random bytes.
    pub fn login(&self, mechanism: Mechanism) -> Result<Login<'_>, Failure> {
        let mut random = [0; NONCE];
        let filled = SystemRandom::new().fill(&mut random);
        filled
            .map_err(|_| Failure::new(ErrorClass::Connect, "the system has no random bytes for the authentication"))?;
        Ok(Login::with(self, mechanism, STANDARD.encode(random)))
    }

    /// Returns the key that is derived from the password. Blocks the thread for milliseconds unless the cache has it.
    fn key(&self, mechanism: Mechanism, salt: Vec<u8>, iterations: NonZeroU32) -> Vec<u8> {
        let place = (mechanism, salt, iterations.get());
        // Concurrent connections wait here while one client derives the key.
        let mut keys = self.keys.lock().expect("no thread panics while it holds the lock");
        if let Some(key) = keys.get(&place) {
            return key.clone();
        }
        let (algorithm, password, length) = match mechanism {
            Mechanism::Sha1 => {
                let hash = Md5::digest(format!("{}:mongo:{}", self.name, self.password.expose()));
                let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
                (pbkdf2::PBKDF2_HMAC_SHA1, hex, digest::SHA1_OUTPUT_LEN)
            }
            Mechanism::Sha256 => {
                let plain = self.password.expose();
                let prepared = stringprep::saslprep(plain).map_or(plain.into(), |text| text.into_owned());
                (pbkdf2::PBKDF2_HMAC_SHA256, prepared, digest::SHA256_OUTPUT_LEN)
            }
        };
        if keys.len() >= KEYS {
            keys.clear();
        }
        let mut key = vec![0; length];
        pbkdf2::derive(algorithm, iterations, &place.1, password.as_bytes(), &mut key);
        keys.insert(place, key.clone());
        key
    }
}

impl<'a> Login<'a> {
    /// Begins an authentication with the client's `nonce`, in Base64.
    fn with(user: &'a User, mechanism: Mechanism, nonce: String) -> Self {
        let name = user.name.replace('=', "=3D").replace(',', "=2C");
        Self { user, mechanism, first: format!("n={name},r={nonce}"), nonce }
    }

    /// Returns the first command, `saslStart`.
    pub fn start(&self) -> Document {
        doc! {
            "saslStart": 1, "mechanism": self.mechanism.name(), "payload": payload(&format!("n,,{}", self.first)),
            "options": {"skipEmptyExchange": true},
        }
    }

    /// Returns the second command and the expected server signature, from the answer to the first command. Refuses
    /// answers that violate SCRAM, and iteration counts outside 4096 to 1,000,000.
    pub fn next(&self, answer: &Document) -> Result<(Document, String), Failure> {
        let text = words(answer)?;
        if is_done(answer) || text.split(',').any(|field| field.starts_with("m=")) {
            // The server ended the exchange without its proof, or uses an unsupported extension.
            return Err(broken());
        }
        let field = |name: &str| text.split(',').find_map(|field| field.strip_prefix(name)).ok_or_else(broken);
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        let salt = STANDARD.decode(salt).map_err(|_| broken())?;
        let iterations: u32 = iterations.parse().map_err(|_| broken())?;
        if !ITERATIONS.contains(&iterations) {
            let (least, most) = (ITERATIONS.start(), ITERATIONS.end());
            let words = format!("the server asks for {iterations} iterations of SCRAM; allowed are {least} to {most}");
            return Err(Failure::new(ErrorClass::Connect, words));
        }
        let iterations = NonZeroU32::new(iterations).ok_or_else(broken)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(broken());
        }
        let key = self.user.key(self.mechanism, salt, iterations);
        let last = format!("c=biws,r={nonce}");
        let message = [&self.first, &text, &last].map(String::as_str).join(",");
        let client = self.mechanism.hmac(&key, b"Client Key");
        let stored = self.mechanism.hash(client.as_ref());
        let signature = self.mechanism.hmac(stored.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server = self.mechanism.hmac(&key, b"Server Key");
        let expected = STANDARD.encode(self.mechanism.hmac(server.as_ref(), message.as_bytes()));
        let command = doc! {
            "saslContinue": 1, "conversationId": answer.get("conversationId").cloned().unwrap_or(1.into()),
            "payload": payload(&format!("{last},p={}", STANDARD.encode(proof))),
        };
        Ok((command, expected))
    }
}

/// Checks the server's signature in the answer to the second command; fails if it is wrong or missing. Returns the
/// third command, if needed.
///
/// Servers before 4.4 ignore `skipEmptyExchange` and end the conversation after an empty message.
pub fn verify(answer: &Document, signature: &str) -> Result<Option<Document>, Failure> {
    // Extensions may follow.
    let mut fields = words(answer)?;
    if let Some(end) = fields.find(',') {
        fields.truncate(end);
    }
    if fields.strip_prefix("v=") != Some(signature) {
        return Err(broken());
    }
    Ok((!is_done(answer)).then(|| {
        let conversation = answer.get("conversationId").cloned().unwrap_or(1.into());
        doc! {"saslContinue": 1, "conversationId": conversation, "payload": payload("")}
    }))
}

/// Fails unless the answer to the third command ends the conversation.
pub fn end(answer: &Document) -> Result<(), Failure> {
    if is_done(answer) { Ok(()) } else { Err(broken()) }
}

/// Returns whether the server ended the conversation.
fn is_done(answer: &Document) -> bool {
    answer.get_bool("done").unwrap_or(false)
}

/// Converts a message of SCRAM to the type of the commands' payload.
fn payload(text: &str) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() }
}

/// Returns the message of SCRAM in an answer. Fails if there is none, or it is not UTF-8.
fn words(answer: &Document) -> Result<String, Failure> {
    let bytes = answer.get_binary_generic("payload").map_err(|_| broken())?;
    String::from_utf8(bytes.clone()).map_err(|_| broken())
}

/// Returns the failure for an answer that violates SCRAM, of class Connect.
fn broken() -> Failure {
    Failure::new(
        ErrorClass::Connect,
        "the server broke the rules of SCRAM authentication, or does not know the password",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the second message of an exchange, and the server's signature.
    fn exchange(name: &str, password: &str, mechanism: Mechanism, nonce: &str, first: &str) -> (String, String) {
        let user = User::from((name.to_owned(), Secret::from(password.to_owned())));
        let login = Login::with(&user, mechanism, nonce.to_owned());
        let (command, signature) = login.next(&doc! {"payload": payload(first), "conversationId": 7}).unwrap();
        assert_eq!(command.get_i32("conversationId").unwrap(), 7);
        (words(&command).unwrap(), signature)
    }

    #[test]
    fn the_example_of_rfc_7677_is_answered_as_it_says() {
        let first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, signature) = exchange("user", "pencil", Mechanism::Sha256, "rOprNGfwEbeRWgbNEkqO", first);
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(last, format!("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p={proof}"));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_server_that_breaks_the_rules_is_not_answered() {
        let user = User::from(("user".to_owned(), Secret::from("pencil".to_owned())));
        let login = Login::with(&user, Mechanism::Sha256, "abc".to_owned());
        for first in [
            "",
            "r=abcd,s=W22Z",
            "r=xbcd,s=W22Z,i=4096",
            "r=abc,s=W22Z,i=4096",
            "r=abcd,s=W22Z,i=1",
            "r=abcd,s=?,i=4096",
            "m=more,r=abcd,s=W22Z,i=4096",
            "r=abcd,s=W22Z,i=4096,m=more",
            "r=abcd,s=W22Z,i=1000001",
            "r=abcd,s=W22Z,i=-4096",
        ] {
            assert!(login.next(&doc! {"payload": payload(first)}).is_err(), "{first}");
        }
        let early = doc! {"payload": payload("r=abcd,s=W22Z,i=4096"), "done": true};
        assert!(login.next(&early).is_err(), "the server has proved nothing yet");
        assert!(verify(&doc! {"payload": payload("v=wrong"), "done": true}, "right").is_err());
        assert!(verify(&doc! {"payload": payload("e=other-error"), "done": true}, "right").is_err());
        assert!(!format!("{user:?}").contains("pencil"));
    }

    #[test]
    fn a_conversation_lasts_until_the_server_says_that_it_is_done() {
        let signed = |done: bool| doc! {"payload": payload("v=right"), "conversationId": 7, "done": done};
        assert_eq!(verify(&signed(true), "right").unwrap(), None);
        let third = verify(&signed(false), "right").unwrap().unwrap();
        assert_eq!((third.get_i32("conversationId").unwrap(), words(&third).unwrap()), (7, String::new()));
        assert!(end(&signed(true)).is_ok() && end(&signed(false)).is_err() && end(&doc! {"done": "yes"}).is_err());
    }

    #[test]
    fn a_server_that_changes_its_salt_does_not_fill_the_memory() {
        let user = User::from(("user".to_owned(), Secret::from("pencil".to_owned())));
        for salt in 0..3 * KEYS as u8 {
            user.key(Mechanism::Sha1, vec![salt], NonZeroU32::new(1).unwrap());
            assert!((1..=KEYS).contains(&user.keys.lock().unwrap().len()));
        }
    }

    #[test]
    fn the_strongest_mechanism_of_a_user_is_used() {
        let of = |names: &[&str]| Mechanism::of(&doc! {"saslSupportedMechs": names.to_vec()});
        assert_eq!(of(&["SCRAM-SHA-1"]), Mechanism::Sha1);
        assert_eq!(of(&["SCRAM-SHA-1", "SCRAM-SHA-256"]), Mechanism::Sha256);
        assert_eq!(Mechanism::of(&doc! {}), Mechanism::Sha256);
    }
}
