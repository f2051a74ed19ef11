//! Certificates of a cluster's certificate authority, created when the cluster starts. Calls with the same
//! name and key yield the same authority, because a certificate identifies its issuer by name and key.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Create an authority with a name, valid for `days` days from now; return its certificate and key as PEM.
/// Each call makes a new key. Raises ValueError if it cannot be made.
#[pyfunction]
pub fn make_authority(name: &str, days: u32) -> PyResult<(String, String)> {
    let key = KeyPair::generate().map_err(refused)?;
    let mut params = authority(name);
    valid(&mut params, days);
    let certificate = params.self_signed(&key).map_err(refused)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Create a certificate for `addresses`, signed by the authority; return it and its key as PEM.
///
/// `addresses` are IP addresses and DNS names, `name` is its common name. It is valid for `days` days. `authority_name`
/// and `authority_key` (PEM) identify the authority. It serves for both ends of a connection, since nodes are each
/// other's clients. Raises ValueError for an invalid key or address.
#[pyfunction]
pub fn issue_certificate(
    authority_name: &str,
    authority_key: &str,
    name: &str,
    addresses: Vec<String>,
    days: u32,
) -> PyResult<(String, String)> {
    let issuer = Issuer::new(authority(authority_name), KeyPair::from_pem(authority_key).map_err(refused)?);
    let mut params = CertificateParams::new(addresses).map_err(refused)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, days);
    let key = KeyPair::generate().map_err(refused)?;
    let certificate = params.signed_by(&key, &issuer).map_err(refused)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Returns the parameters of an authority's certificate, which signs only certificates of nodes.
fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Sets the validity from a day before now, since the clocks of machines differ, until `days` days from now.
fn valid(params: &mut CertificateParams, days: u32) {
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + DAY * days).into();
}

/// Converts an error of the certificate library to ValueError.
fn refused(error: rcgen::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
