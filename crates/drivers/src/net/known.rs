//! The nodes that a cluster reports, by their numbers in the records.

use std::sync::{Arc, Mutex, MutexGuard};

use loadframe_engine::plan::PlanError;

use crate::net::target_node::Host;

/// Every node that the cluster ever reported, by its number.
#[derive(Debug, Default)]
pub struct Known(Mutex<Vec<Arc<Host>>>);

impl Known {
    /// The names of the nodes, in the order of their numbers.
    pub fn texts(&self) -> Vec<String> {
        self.lock().iter().map(|host| host.text.clone()).collect()
    }

    /// Returns the node with this number; `None` if there is none.
    pub fn host(&self, number: u16) -> Option<Arc<Host>> {
        self.lock().get(usize::from(number)).cloned()
    }

    /// Returns the number of the node at `address` (`host:port`). An unknown node gets a new number.
    pub async fn number(&self, address: &str) -> Result<u16, PlanError> {
        let place = |known: &[Arc<Host>]| known.iter().position(|host| host.text == address);
        if let Some(number) = place(&self.lock()) {
            return Ok(number as u16);
        }
        // The user may have given a name for the address that the cluster reports.
        let resolved = Host::look_up(address).await?;
        let mut known = self.lock();
        let same = |host: &Arc<Host>| host.addresses.iter().any(|address| resolved.addresses.contains(address));
        let number = known.iter().position(same).unwrap_or_else(|| {
            known.push(Arc::new(resolved));
            known.len() - 1
        });
        u16::try_from(number).map_err(|_| PlanError::new(format!("there were {number} nodes already")))
    }

    /// Like `number`, for a node with `name` in the records.
    pub async fn number_of(&self, address: &str, name: &str) -> Result<u16, PlanError> {
        let number = self.number(address).await?;
        let known = &mut self.lock()[usize::from(number)];
        if known.text != name {
            *known = Arc::new(Host { text: name.to_owned(), ..Host::clone(known) });
        }
        Ok(number)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        self.0.lock().expect("no thread panics while it holds the lock")
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
