//! Connections that the clients of one worker share, for when there are fewer connections than clients. Clients are
//! served in the order of their requests, and the connection that was idle longest is lent first, so that all nodes get
//! their share. For a request to a certain node an idle connection to that node goes first; if there is none, a
//! connection moves to it once the node is behind.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::deadline::Limit;
use super::route::Route;

/// A connection stays at its node until the node is this many requests ahead of another: moving costs a connect.
const AHEAD: u64 = 8;

/// See the module.
pub struct Pool {
    idle: RefCell<VecDeque<Route>>,
    /// Requests that were for a certain node, by the number of the node that they went to.
    served: RefCell<Vec<u64>>,
    /// As many permits as there are idle routes that no client was promised.
    free: Semaphore,
}

/// A borrowed route; it returns to the pool when it is dropped.
pub struct Borrowed<'a> {
    route: Option<Route>,
    pool: &'a Pool,
    /// Released after the route has returned, because fields are dropped after their owner.
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// A pool in which all routes are idle.
    pub fn new(routes: VecDeque<Route>) -> Self {
        Self { free: Semaphore::new(routes.len()), served: RefCell::default(), idle: RefCell::new(routes) }
    }

    /// Waits until a route is free, best one to the node with the number `wanted`; `None` if that does not happen within the limit.
    pub async fn borrow(&self, limit: Limit, wanted: Option<u16>) -> Option<Borrowed<'_>> {
        let permit = match self.free.try_acquire() {
            Ok(permit) => permit,
            Err(_) => limit.within(self.free.acquire()).await?.ok()?,
        };
        let route = match wanted {
            None => self.idle.borrow_mut().pop_front(),
            Some(wanted) => self.choose(wanted),
        };
        Some(Borrowed { route, pool: self, _permit: permit })
    }
}

impl Pool {
    /// An idle route for a request to the node `wanted`.
    fn choose(&self, wanted: u16) -> Option<Route> {
        let (mut idle, mut served) = (self.idle.borrow_mut(), self.served.borrow_mut());
        let there = idle.iter().position(|route| route.assignment.home() == wanted);
        let mut route = idle.remove(there.unwrap_or(0))?;
        let most = usize::from(route.assignment.home().max(wanted)) + 1;
        if served.len() < most {
            // A node that comes later is not behind those that were there before.
            let least = served.iter().copied().min().unwrap_or(0);
            served.resize(most, least);
        }
        let home = usize::from(route.assignment.home());
        if there.is_none() && served[usize::from(wanted)] + AHEAD <= served[home] {
            route.assignment.turn_to(wanted, false);
        }
        served[usize::from(route.assignment.home())] += 1;
        Some(route)
    }
}

impl Borrowed<'_> {
    /// The route, while it is borrowed.
    pub fn route(&mut self) -> &mut Route {
        self.route.as_mut().expect("there is a route for each permit")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.pool.idle.borrow_mut().extend(self.route.take());
    }
}
