//! Connections that the clients of one worker share, where there are to be fewer than clients. Whoever asks first is
//! served first, and whatever has been idle for longest is lent first, so that all nodes get their share.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::deadline::Limit;
use super::route::Route;

/// See the module.
pub struct Pool {
    idle: RefCell<VecDeque<Route>>,
    /// As many as there are idle routes that nobody was promised.
    free: Semaphore,
}

/// A route that goes back when it is dropped.
pub struct Borrowed<'a> {
    route: Option<Route>,
    pool: &'a Pool,
    /// Given back after the route, as fields are dropped after their owner.
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// All of them idle.
    pub fn new(routes: VecDeque<Route>) -> Self {
        Self { free: Semaphore::new(routes.len()), idle: RefCell::new(routes) }
    }

    /// Waits until a route is free; `None` if none is in time.
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
