//! Connections that the clients of one worker share, for when there are fewer connections than clients. Clients are
//! served in the order of their requests, and the connection that was idle longest is lent first, so that all nodes get
//! their share.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::deadline::Limit;
use super::route::Route;

/// See the module.
pub struct Pool {
    idle: RefCell<VecDeque<Route>>,
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
        Self { free: Semaphore::new(routes.len()), idle: RefCell::new(routes) }
    }

    /// Waits until a route is free; `None` if that does not happen within the limit.
    pub async fn borrow(&self, limit: Limit) -> Option<Borrowed<'_>> {
        let permit = match self.free.try_acquire() {
            Ok(permit) => permit,
            Err(_) => limit.within(self.free.acquire()).await?.ok()?,
        };
        let route = self.idle.borrow_mut().pop_front();
        Some(Borrowed { route, pool: self, _permit: permit })
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
