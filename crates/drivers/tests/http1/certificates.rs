//! A test authority, its certificates, and TLS servers that use them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// An authority, with a folder for PEM files. Dropping it removes the folder.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate with its key.
pub struct Identity {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Authority {
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("loadframe-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key), folder }
    }

    /// Signs a certificate for `name`, valid until the start of `year`.
    pub fn sign(&self, name: &str, year: i32) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        Identity { certificate: params.signed_by(&key, &self.issuer).unwrap(), key }
    }

    /// Returns a file with the authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.write("ca.pem", &self.certificate.pem())
    }

    /// Writes a file into the authority's folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the configuration of a server with `identity`. `wants_clients`: it requires client certificates signed
    /// by this authority.
    pub fn server(&self, identity: &Identity, wants_clients: bool) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = if wants_clients {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(identity.key.serialize_der()).unwrap();
        Arc::new(builder.with_single_cert(vec![identity.certificate.der().clone()], key).unwrap())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}
