//! TLS for nodes that the library connects to by IP address, although their certificates may contain host names.

use std::net::IpAddr;
use std::sync::Arc;

use loadframe_engine::plan::PlanError;
use loadframe_engine::plan::access;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::nodes::CqlNodes;
use crate::net::tls;

/// Builds the TLS configuration from the files in `plan`. Accepts certificates for a node's address or its name.
/// Refuses unusable files.
pub fn config(plan: &access::Tls, nodes: &Arc<CqlNodes>) -> Result<Arc<ClientConfig>, PlanError> {
    let nodes = nodes.clone();
    tls::config(plan, |verifier| Arc::new(ByHost { verifier, nodes })).map(Arc::new)
}

/// Accepts a certificate for a node's address or for its configured name.
#[derive(Debug)]
struct ByHost {
    verifier: Arc<WebPkiServerVerifier>,
    nodes: Arc<CqlNodes>,
}

impl ServerCertVerifier for ByHost {
    /// Accepts a certificate that is valid for the node's address or for one of its configured names; returns the
    /// verification error otherwise.
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        address: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut verified = self.verifier.verify_server_cert(certificate, chain, address, ocsp, now);
        let ServerName::IpAddress(ip) = address else { return verified };
        for name in self.nodes.names(IpAddr::from(*ip)) {
            if verified.is_ok() {
                break;
            }
            if let Ok(name) = ServerName::try_from(name) {
                verified = self.verifier.verify_server_cert(certificate, chain, &name, ocsp, now);
            }
        }
        verified
    }

    /// Verifies a signature with the inner verifier.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    /// Verifies a signature with the inner verifier.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    /// Returns the signature schemes of the inner verifier.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
