//! Open streams: requests are due at instants that do not depend on answers, and are handed to idle clients.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{Stream, TURNS, Ticket, Worker};
use crate::driver::Driver;
use crate::schedule::Due;

/// Where an open stream leaves an iteration for one of its clients.
#[derive(Default)]
struct Desk {
    order: Cell<Option<(Ticket, Instant)>>,
    bell: Notify,
}

impl Desk {
    fn hand(&self, ticket: Ticket, scheduled: Instant) {
        self.order.set(Some((ticket, scheduled)));
        self.bell.notify_one();
    }
}

impl<D: Driver> Worker<D> {
    /// Hands each iteration to an idle client at its instant, or drops it if `most` are in flight.
    pub(super) async fn open(self: Rc<Self>, stream: Rc<Stream>, schedule: Due, most: u64, clients: &mut JoinSet<()>) {
        let idle: Rc<RefCell<Vec<Rc<Desk>>>> = Rc::default();
        let closing = Rc::new(Cell::new(false));
        let mut desks: Vec<Rc<Desk>> = Vec::new();
        let mut turns = 0;
        for (n, due) in schedule {
            let scheduled = self.start + due;
            if self.is_over(&stream, scheduled) {
                break;
            }
            if self.phase.limits[stream.index].is_some_and(|limit| n >= limit) {
                self.nothing_left(stream.index, true);
                break;
            }
            self.sleep_until(scheduled).await;
            if self.phase.ended.get().is_some_and(|ended| scheduled >= *ended) {
                break;
            }
            turns += 1;
            if turns % TURNS == 0 {
                // A schedule that has fallen behind must not keep its own clients from the answers.
                tokio::task::yield_now().await;
            }
            let ticket = self.ticket(&stream, n);
            let next = idle.borrow_mut().pop();
            if let Some(desk) = next {
                desk.hand(ticket, scheduled);
            } else if (desks.len() as u64) < most {
                let desk = Rc::new(Desk::default());
                desk.hand(ticket, scheduled);
                desks.push(desk.clone());
                let client = stream.share.index + stream.share.of * (desks.len() as u64 - 1);
                clients.spawn_local(self.clone().serve(stream.clone(), client, desk, idle.clone(), closing.clone()));
            } else {
                let first = n * self.phase.courses[stream.index].steps();
                let slot = self.pick(&stream, first, 0, ticket).slot;
                self.recorder.borrow_mut().dropped(slot, scheduled, Instant::now(), &self.waiting.borrow());
                self.settle(&stream, ticket, 0);
            }
        }
        closing.set(true);
        for desk in desks {
            desk.bell.notify_one();
        }
    }

    /// A client of an open stream: serves what is handed to it.
    async fn serve(
        self: Rc<Self>,
        stream: Rc<Stream>,
        client: u64,
        desk: Rc<Desk>,
        idle: Rc<RefCell<Vec<Rc<Desk>>>>,
        closing: Rc<Cell<bool>>,
    ) {
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        loop {
            if let Some((ticket, scheduled)) = desk.order.take() {
                if self.phase.courses[stream.index].steps() > 1 {
                    // A user who walks a journey in an open stream has just arrived.
                    self.phase.driver.depart(&mut connection);
                }
                self.walk(&stream, &mut connection, seat, ticket, scheduled).await;
                idle.borrow_mut().push(desk.clone());
            } else if closing.get() {
                return;
            } else {
                desk.bell.notified().await;
            }
        }
    }
}
