//! Connections shared by the clients of one worker, for fewer connections than clients.
//!
//! Clients are served in the order of their requests. The connection that was idle longest is lent first, so that all
//! nodes get an equal part of the load. A request to a given node prefers an idle connection to that node. If there is
//! none, a connection moves to the node once the node is behind.

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::deadline::{Deadline, Limit};
use super::route::Route;

/// Lead in requests at which a connection may move to another node: moving costs a connect.
const AHEAD: u64 = 8;

/// The pool of one worker.
pub struct Pool {
    idle: RefCell<VecDeque<Route>>,
    /// Number of requests to a given node, by the number of the node that served them.
    served: RefCell<Vec<u64>>,
    /// One permit per idle route that is not promised to a client.
    free: Semaphore,
    /// Timers of past waits, for the next ones.
    deadlines: RefCell<Vec<Deadline>>,
}

/// A borrowed route; dropping it returns it to the pool.
pub struct Borrowed<'a> {
    route: Option<Route>,
    pool: &'a Pool,
    /// Released after the route has returned, because fields are dropped after their owner.
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// Creates a pool in which all routes are idle.
    pub fn new(routes: VecDeque<Route>) -> Self {
        let free = Semaphore::new(routes.len());
        Self { free, served: RefCell::default(), idle: RefCell::new(routes), deadlines: RefCell::default() }
    }

    /// Waits for a free route, preferably to node number `wanted`; `None` if `limit` passes first.
    pub async fn borrow(&self, limit: Limit, wanted: Option<u16>) -> Option<Borrowed<'_>> {
        let permit = match self.free.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let mut deadline = self.deadlines.borrow_mut().pop().unwrap_or_default();
                let permit = deadline.within(limit.due, self.free.acquire()).await;
                self.deadlines.borrow_mut().push(deadline);
                permit?.ok()?
            }
        };
        let route = match wanted {
            None => self.idle.borrow_mut().pop_front(),
            Some(wanted) => self.choose(wanted),
        };
        Some(Borrowed { route, pool: self, _permit: permit })
    }
}

impl Pool {
    /// Removes and returns an idle route for a request to node `wanted`, preferably one whose home is this node; `None`
    /// if no route is idle. Another node's route moves here if this node has served at least 8 requests fewer than that
    /// node. Counts the request for the route's home.
    fn choose(&self, wanted: u16) -> Option<Route> {
        let (mut idle, mut served) = (self.idle.borrow_mut(), self.served.borrow_mut());
        let there = idle.iter().position(|route| route.assignment.home() == wanted);
        let mut route = idle.remove(there.unwrap_or(0))?;
        let most = usize::from(route.assignment.home().max(wanted)) + 1;
        if served.len() < most {
            // A node that joins later starts level with the others.
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
    /// Returns the borrowed route.
    pub fn route(&mut self) -> &mut Route {
        self.route.as_mut().expect("there is a route for each permit")
    }
}

impl Drop for Borrowed<'_> {
    /// Returns the route to the pool.
    fn drop(&mut self) {
        self.pool.idle.borrow_mut().extend(self.route.take());
    }
}
