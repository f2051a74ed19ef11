//! TLS connections: trusted authorities, the client's certificate, and readable failures.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use loadframe_engine::plan::PlanError;
use loadframe_engine::plan::access;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::stream::Stream;

/// Performs TLS handshakes. All clients of a target share it.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl fmt::Debug for Tls {
    /// Writes the name of the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the certificates and key named in `plan`; fails if they are unusable. `protocol` is the name offered in
    /// the handshake (ALPN), such as `http/1.1`; `None` offers none.
    pub fn new(plan: &access::Tls, protocol: Option<&str>) -> Result<Self, PlanError> {
        let mut config = config(plan, |verifier| verifier)?;
        config.alpn_protocols = protocol.map(|name| name.as_bytes().to_vec()).into_iter().collect();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the handshake with `name` (a DNS name or an IP address) over `stream`. Fails if the name is invalid, or
    /// the server's certificate does not verify. Sets no time limit.
    pub async fn handshake(&self, name: &str, stream: Stream) -> io::Result<TlsStream<Stream>> {
        let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

/// Reads the files named in `plan`. `verifier` may wrap the usual verification to add conditions. Without verification
/// in the plan, accepts every certificate. Refuses a client's certificate without its key, and the reverse.
pub fn config(
    plan: &access::Tls,
    verifier: impl FnOnce(Arc<WebPkiServerVerifier>) -> Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, PlanError> {
    let provider = Arc::new(ring::default_provider());
    let unusable = |error: &dyn fmt::Display| PlanError::new(format!("TLS cannot be set up: {error}"));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let judge: Arc<dyn ServerCertVerifier> = if plan.verify {
        let roots = Arc::new(roots(plan.ca.as_deref())?);
        let usual = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        verifier(usual.map_err(|error| unusable(&error))?)
    } else {
        Arc::new(AnyCertificate(provider))
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(judge);
    match (&plan.certificate, &plan.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let mismatch = |error| {
                PlanError::new(format!("{} and {} do not go together: {error}", certificate.display(), key.display()))
            };
            builder.with_client_auth_cert(chain, private_key(key)?).map_err(mismatch)
        }
        (Some(_), None) => Err(PlanError::new("a client's certificate needs its key: give both")),
        (None, Some(_)) => Err(PlanError::new("a client's key needs its certificate: give both")),
    }
}

/// Returns a readable reason for a failed handshake or a broken connection that would fail again. `None` for a network
/// failure.
pub fn refusal(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(error) => format!("its certificate does not verify: {}", certificate_error(error)),
        Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        Error::AlertReceived(AlertDescription::CertificateRequired) => "it wants a client's certificate".to_owned(),
        Error::AlertReceived(alert) => format!("it refuses what it is shown: {alert:?}"),
        other => other.to_string(),
    })
}

/// Describes why a certificate does not verify.
fn certificate_error(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "its issuer is not trusted; name the issuer's certificate as ca".to_owned(),
        CertificateError::BadSignature => "it is not signed by the issuer that it names".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it expired {} ago", duration_text(time.as_secs().saturating_sub(not_after.as_secs())))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it begins to be valid in {}", duration_text(not_before.as_secs().saturating_sub(time.as_secs())))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            format!("it is for {names}, and not for {}", expected.to_str())
        }
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is an authority's own, and not a server's".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns `node.test` from `DnsName("node.test")`, and a text without a parenthesis unchanged.
fn bare(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, inside)| inside.trim_matches([')', '"']))
}

/// Formats seconds as whole minutes (below 2 hours), hours (below 2 days) or days.
fn duration_text(seconds: u64) -> String {
    match seconds {
        0..7200 => format!("{} minutes", seconds / 60),
        7200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

/// Reads the authorities in `file`, or the system's trusted ones if no file is given. Fails if there are none, or if
/// one in the file is invalid.
fn roots(file: Option<&Path>) -> Result<RootCertStore, PlanError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| PlanError::new(format!("{}: {error}", file.display())))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(PlanError::new("this system trusts no authority; name the target's own as ca"));
            }
        }
    }
    Ok(roots)
}

/// Reads the certificates in a PEM file. Fails if there are none, or one is invalid.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, PlanError> {
    let read = |error| unreadable(file, "certificate", &error);
    let certificates = CertificateDer::pem_file_iter(file).map_err(read)?.collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(read(pem::Error::NoItemsFound)),
        certificates => certificates.map_err(read),
    }
}

/// Reads the first private key in a PEM file; fails without an unencrypted one.
fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, PlanError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unreadable(file, "private key that is not encrypted", &error))
}

/// Describes why `file` holds no `what`, such as a certificate, in PEM.
fn unreadable(file: &Path, what: &str, error: &pem::Error) -> PlanError {
    PlanError::new(match error {
        pem::Error::Io(error) => format!("{}: {error}", file.display()),
        pem::Error::NoItemsFound => format!("{} holds no {what} in PEM", file.display()),
        _ => format!("{} is not a PEM file", file.display()),
    })
}

/// A verifier that accepts every server certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    /// Accepts every certificate.
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    /// Accepts every signature.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Accepts every signature.
    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// Returns all signature schemes of the cryptography library.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
