//! Node numbers, as indices in [`Driver::hosts`](loadframe_engine::driver::Driver::hosts). The library discovers nodes;
//! a node that the user did not list gets the next index.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};

use loadframe_engine::plan::PlanError;

/// All nodes that the target ever had, shared by all threads.
#[derive(Debug, Default)]
pub struct CqlNodes {
    known: Mutex<Vec<Host>>,
}

/// A node, by its name and its addresses.
#[derive(Clone, Debug)]
struct Host {
    /// The host as the user wrote it, or as the cluster names it.
    text: String,
    addresses: Vec<SocketAddr>,
    /// Whether requests go to this node now.
    present: bool,
}

impl CqlNodes {
    /// Replaces the hosts that requests go to. Known hosts keep their index. Blocks while it resolves names; refuses
    /// URLs and names without an address.
    pub fn set(&self, hosts: &[String]) -> Result<(), PlanError> {
        let resolved = hosts.iter().map(|text| resolve(text)).collect::<Result<Vec<_>, _>>()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter_mut().for_each(|host| host.present = false);
        for host in resolved {
            match known.iter_mut().find(|old| old.addresses.iter().any(|address| host.addresses.contains(address))) {
                Some(old) => old.present = true,
                None => known.push(host),
            }
        }
        Ok(())
    }

    /// Returns the hosts' texts, by index.
    pub fn texts(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|host| host.text.clone()).collect()
    }

    /// Returns the addresses of the hosts that requests go to now, from which a session discovers the others.
    pub fn contacts(&self) -> Vec<SocketAddr> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|host| host.present).flat_map(|host| host.addresses.iter().copied()).collect()
    }

    /// Returns the configured names, without ports, of the hosts with that address.
    pub fn names(&self, address: IpAddr) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let hosts = known.iter().filter(|host| host.addresses.iter().any(|one| one.ip() == address));
        hosts.filter_map(|host| host.text.rsplit_once(':')).map(|(name, _)| name.to_owned()).collect()
    }

    /// Returns the index of the node at that address; at most 65,535. Adds the node if it is unknown.
    pub fn place(&self, address: SocketAddr) -> u16 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|host| host.addresses.contains(&address)).unwrap_or_else(|| {
            known.push(Host { text: address.to_string(), addresses: vec![address], present: true });
            known.len() - 1
        });
        u16::try_from(place).unwrap_or(u16::MAX)
    }
}

/// Resolves the addresses of a host, which blocks. Refuses a URL, and a name without addresses.
fn resolve(text: &str) -> Result<Host, PlanError> {
    let wrong = |cause: String| PlanError::new(format!("host \"{text}\": {cause}"));
    if text.contains("://") {
        return Err(wrong("this protocol has no URLs; give host:port".to_owned()));
    }
    let addresses: Vec<_> = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if addresses.is_empty() {
        Err(wrong("the name has no address".to_owned()))
    } else {
        Ok(Host { text: text.to_owned(), addresses, present: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts texts to owned ones.
    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_node_keeps_its_number_when_others_join_and_leave() {
        let nodes = CqlNodes::default();
        nodes.set(&texts(&["127.0.0.1:9042", "127.0.0.2:9042"])).unwrap();
        assert_eq!(nodes.place("127.0.0.2:9042".parse().unwrap()), 1);
        assert_eq!(nodes.place("127.0.0.3:9042".parse().unwrap()), 2, "a node that the cluster reported");
        nodes.set(&texts(&["127.0.0.3:9042", "127.0.0.4:9042"])).unwrap();
        assert_eq!(nodes.texts(), ["127.0.0.1:9042", "127.0.0.2:9042", "127.0.0.3:9042", "127.0.0.4:9042"]);
        let contacts: Vec<_> = nodes.contacts().iter().map(SocketAddr::to_string).collect();
        assert_eq!(contacts, ["127.0.0.3:9042", "127.0.0.4:9042"]);
    }

    #[test]
    fn a_node_is_known_by_the_name_that_it_was_given_by() {
        let nodes = CqlNodes::default();
        nodes.set(&texts(&["localhost:9042"])).unwrap();
        assert_eq!(nodes.names("127.0.0.1".parse().unwrap()), ["localhost"]);
        assert!(nodes.names("127.0.0.9".parse().unwrap()).is_empty());
    }

    /// Checks that a host without a port, or a URL, is refused and leaves the hosts unchanged.
    #[test]
    fn a_host_that_is_none_is_refused_and_nothing_changes() {
        let nodes = CqlNodes::default();
        nodes.set(&texts(&["127.0.0.1:9042"])).unwrap();
        for bad in ["127.0.0.1", "127.0.0.1:port", "https://127.0.0.1:9042"] {
            assert!(nodes.set(&texts(&[bad])).unwrap_err().message.contains(bad));
        }
        assert_eq!(nodes.contacts().len(), 1);
    }
}
