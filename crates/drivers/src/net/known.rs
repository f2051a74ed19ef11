//! The nodes that a cluster tells of, by the numbers that requests are recorded with.

use std::sync::{Arc, Mutex, MutexGuard};

use loadframe_engine::plan::PlanError;

use crate::net::target_node::Host;

/// Every node of a cluster that was ever heard of, by its number.
#[derive(Debug, Default)]
pub struct Known(Mutex<Vec<Arc<Host>>>);

impl Known {
    /// How each is called, by its number.
    pub fn texts(&self) -> Vec<String> {
        self.lock().iter().map(|host| host.text.clone()).collect()
    }

    /// A node by its number.
    pub fn host(&self, number: u16) -> Arc<Host> {
        self.lock()[usize::from(number)].clone()
    }

    /// The number of the node at `address`, `host:port`, which is a new one if it was never heard of.
    pub fn number(&self, address: &str) -> Result<u16, PlanError> {
        let place = |known: &[Arc<Host>]| known.iter().position(|host| host.text == address);
        if let Some(number) = place(&self.lock()) {
            return Ok(number as u16);
        }
        // What the user calls by a name, the cluster calls by an address.
        let found = Host::resolve(address)?;
        let mut known = self.lock();
        let same = |host: &Arc<Host>| host.addresses.iter().any(|address| found.addresses.contains(address));
        let number = known.iter().position(same).unwrap_or_else(|| {
            known.push(Arc::new(found));
            known.len() - 1
        });
        u16::try_from(number).map_err(|_| PlanError(format!("there were {number} nodes already")))
    }

    /// The same of one that is to be recorded as `name`.
    pub fn number_of(&self, address: &str, name: &str) -> Result<u16, PlanError> {
        let number = self.number(address)?;
        let known = &mut self.lock()[usize::from(number)];
        if known.text != name {
            *known = Arc::new(Host { text: name.to_owned(), ..Host::clone(known) });
        }
        Ok(number)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        self.0.lock().expect("nobody panics with it in hand")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_number_by_whatever_name() {
        let known = Known::default();
        assert_eq!(known.number("127.0.0.1:7000").unwrap(), 0);
        assert_eq!(known.number("localhost:7000").unwrap(), 0);
        assert_eq!(known.number("127.0.0.1:7001").unwrap(), 1);
        assert!(known.number("nonsense").is_err());
        assert_eq!(known.texts(), ["127.0.0.1:7000", "127.0.0.1:7001"]);
        assert_eq!(known.number_of("127.0.0.1:7001", "localhost:8001").unwrap(), 1);
        assert_eq!(known.texts(), ["127.0.0.1:7000", "localhost:8001"]);
        assert_eq!(known.number("127.0.0.1:7001").unwrap(), 1);
    }
}
