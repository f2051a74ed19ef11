//! The nodes that a cluster reports, by their numbers in the records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use loadframe_engine::plan::PlanError;

use crate::net::target_node::Host;

/// Every node that the cluster ever reported, by its number. Reads take no lock.
#[derive(Debug, Default)]
pub struct Known {
    hosts: ArcSwap<Vec<Arc<Host>>>,
    /// Held by the caller that changes the nodes.
    changing: Mutex<()>,
}

impl Known {
    /// Returns the names of the nodes, in the order of their numbers.
    pub fn texts(&self) -> Vec<String> {
        self.hosts.load().iter().map(|host| host.text.clone()).collect()
    }

    /// Returns the node with this number; `None` if there is none.
    pub fn host(&self, number: u16) -> Option<Arc<Host>> {
        self.hosts.load().get(usize::from(number)).cloned()
    }

    /// Returns the number of the node at `address` (`host:port`). If no node has this text, resolves it without
    /// blocking, and looks for a node with one of its IP addresses; an unknown node gets a new number. Fails if the
    /// name cannot be resolved, or after 65,536 nodes.
    pub async fn number(&self, address: &str) -> Result<u16, PlanError> {
        let place = |known: &[Arc<Host>]| known.iter().position(|host| host.text == address);
        if let Some(number) = place(&self.hosts.load()) {
            return Ok(number as u16);
        }
        // The user may have given a name for the address that the cluster reports.
        let resolved = Host::look_up(address).await?;
        let _one = self.change();
        let known = self.hosts.load();
        let same = |host: &Arc<Host>| host.addresses.iter().any(|address| resolved.addresses.contains(address));
        let number = known.iter().position(same).unwrap_or_else(|| {
            self.hosts.store(Arc::new([known.as_slice(), &[Arc::new(resolved)]].concat()));
            known.len()
        });
        u16::try_from(number).map_err(|_| PlanError::new(format!("there were {number} nodes already")))
    }

    /// Returns the number of the node at `address` (`host:port`), like `number`, and names it `name` in the records.
    /// Fails if `address` cannot be resolved.
    pub async fn number_of(&self, address: &str, name: &str) -> Result<u16, PlanError> {
        let number = self.number(address).await?;
        let _one = self.change();
        let mut known = Vec::clone(&self.hosts.load());
        let host = &mut known[usize::from(number)];
        if host.text != name {
            *host = Arc::new(Host { text: name.to_owned(), ..Host::clone(host) });
            self.hosts.store(Arc::new(known));
        }
        Ok(number)
    }

    /// Takes the lock for changes of the nodes.
    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_one_address_share_a_number() {
        let known = Known::default();
        assert_eq!(known.number("127.0.0.1:7000").await.unwrap(), 0);
        assert_eq!(known.number("localhost:7000").await.unwrap(), 0);
        assert_eq!(known.number("127.0.0.1:7001").await.unwrap(), 1);
        assert!(known.number("nonsense").await.is_err());
        assert_eq!(known.texts(), ["127.0.0.1:7000", "127.0.0.1:7001"]);
        assert!(known.host(2).is_none());
        assert_eq!(known.number_of("127.0.0.1:7001", "localhost:8001").await.unwrap(), 1);
        assert_eq!(known.texts(), ["127.0.0.1:7000", "localhost:8001"]);
        assert_eq!(known.number("127.0.0.1:7001").await.unwrap(), 1);
    }
}
