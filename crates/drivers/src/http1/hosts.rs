//! The nodes that are talked to: `name:port`, resolved once.

use std::net::{SocketAddr, ToSocketAddrs};

use loadframe_engine::plan::PlanError;

/// One of the target's hosts.
#[derive(Clone, Debug)]
pub struct Host {
    /// `name:port`.
    pub text: String,
    /// Where it may be reached, in the order of the resolver's preference.
    pub addresses: Vec<SocketAddr>,
    /// The name or the address in the user's words, as its certificate has to have it.
    pub name: String,
    /// Its `host` field in the head of a request, with the line's end.
    pub field: Vec<u8>,
}

impl Host {
    /// Resolves `name:port`, `1.2.3.4:port` or `[::1]:port`.
    pub fn resolve(host: &str) -> Result<Self, PlanError> {
        let wrong = || PlanError(format!("host \"{host}\" is not of the form name:port"));
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = name.starts_with('[') && name.ends_with(']');
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if port.parse::<u16>().is_err() || name.is_empty() || !(bracketed || name.chars().all(plain)) {
            return Err(wrong());
        }
        let addresses: Vec<SocketAddr> = host
            .to_socket_addrs()
            .map_err(|error| PlanError(format!("host \"{host}\" cannot be resolved: {error}")))?
            .collect();
        if addresses.is_empty() {
            return Err(PlanError(format!("host \"{host}\" has no address")));
        }
        Ok(Self {
            text: host.to_owned(),
            addresses,
            name: name.to_owned(),
            field: format!("host: {host}\r\n").into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_both_kinds_are_hosts() {
        assert_eq!(Host::resolve("127.0.0.1:9200").unwrap().addresses, ["127.0.0.1:9200".parse().unwrap()]);
        assert_eq!(Host::resolve("[::1]:9200").unwrap().addresses, ["[::1]:9200".parse().unwrap()]);
        let local = Host::resolve("localhost:9200").unwrap();
        assert!(local.addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 9200));
        assert_eq!(local.field, b"host: localhost:9200\r\n");
    }

    #[test]
    fn what_is_no_host_is_refused_by_name() {
        for host in
            ["localhost", "localhost:", ":9200", "localhost:99999", "http://localhost:9200", "a b:1", "::1:9200", ""]
        {
            assert_eq!(Host::resolve(host).unwrap_err().0, format!("host \"{host}\" is not of the form name:port"));
        }
        let error = Host::resolve("no-such-host.invalid:9200").unwrap_err().0;
        assert!(error.starts_with("host \"no-such-host.invalid:9200\" cannot be resolved: "), "{error}");
    }
}
