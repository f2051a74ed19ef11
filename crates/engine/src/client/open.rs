//! Open-loop streams: requests are due at times independent of the answers. Idle clients send them.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::balance::{ClientSlot, Idle};
use super::request::Start;
use super::{Iteration, Stream, TURNS, Worker};
use crate::driver::Driver;
use crate::pacing::schedule::Due;
use crate::reactor;

/// An iteration, the step to run of a group (0 for others, which run whole), and the due time.
type DueIteration = (Iteration, usize, Instant);

impl<D: Driver> Worker<D> {
    /// Hands each iteration of an open stream to an idle client when it is due; each request of a group to another one.
    /// Creates clients in `clients` as needed, up to `most`. Drops and counts an iteration, or a whole group, for which
    /// too few clients are idle. Ends with the stream.
    pub(super) async fn open(self: Rc<Self>, stream: Rc<Stream>, schedule: Due, most: u64, clients: &mut JoinSet<()>) {
        let idle: Rc<Idle<DueIteration>> = Rc::default();
        let closing = Rc::new(Cell::new(false));
        let mut client_slots: Vec<Rc<ClientSlot<DueIteration>>> = Vec::new();
        let mut turns = 0;
        let mut delay = None;
        let stream_plan = &self.phase.stream_plans[stream.index];
        let group = if stream_plan.together { stream_plan.steps() } else { 1 };
        for (n, due) in schedule {
            let mut scheduled = self.start + due;
            if let Some(after) = self.phase.plan.pause_after.filter(|after| due >= *after) {
                scheduled += match delay {
                    Some(delay) => delay,
                    None => *delay.insert(self.pause(&stream, after).await),
                };
            }
            if self.is_over(&stream, scheduled) {
                break;
            }
            if self.phase.limits[stream.index].is_some_and(|limit| n >= limit) {
                self.set_ran_out(stream.index, true);
                break;
            }
            self.sleep_until(&stream, scheduled).await;
            if self.is_over(&stream, scheduled) {
                break;
            }
            turns += group;
            if turns >= u64::from(TURNS) {
                turns = 0;
                // Yield when the schedule has fallen behind, so that clients can read their answers.
                reactor::yield_now().await;
            }
            let ticket = self.ticket(&stream, n);
            let first = n * stream_plan.steps();
            let members = (0..group as usize).map(|step| (step, self.pick(&stream, first + step as u64, step, ticket)));
            if most - client_slots.len() as u64 + idle.count() < group {
                for (_, choice) in members {
                    self.recorder.borrow_mut().dropped(choice.slot, scheduled, Instant::now(), &self.waiting.borrow());
                }
                self.settle(&stream, ticket, 0);
                continue;
            }
            for (step, choice) in members {
                // All steps of a journey go to one node, so each step is spread over the nodes like the first.
                let due = stream.due_node(choice.number);
                let node = due.unwrap_or(0);
                if let Some(client_slot) = idle.take(node) {
                    client_slot.hand((ticket, step, scheduled), node);
                } else if (client_slots.len() as u64) < most {
                    let client_slot = ClientSlot::new(Some((ticket, step, scheduled)), node);
                    client_slots.push(client_slot.clone());
                    let client = stream.share.index + stream.share.of * (client_slots.len() as u64 - 1);
                    clients.spawn_local(self.clone().serve(
                        stream.clone(),
                        client,
                        client_slot,
                        idle.clone(),
                        closing.clone(),
                    ));
                } else {
                    let client_slot = idle.take_any().expect("enough clients are idle");
                    client_slot.hand((ticket, step, scheduled), node);
                }
                stream.count_node(choice.number, due);
            }
        }
        closing.set(true);
        client_slots.iter().for_each(|client_slot| client_slot.wake());
    }

    /// Runs the iterations handed to client number `client` of an open stream, until `closing` is set.
    async fn serve(
        self: Rc<Self>,
        stream: Rc<Stream>,
        client: u64,
        client_slot: Rc<ClientSlot<DueIteration>>,
        idle: Rc<Idle<DueIteration>>,
        closing: Rc<Cell<bool>>,
    ) {
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        let stream_plan = &self.phase.stream_plans[stream.index];
        loop {
            if let Some((ticket, step, scheduled)) = client_slot.take() {
                if stream_plan.steps() > 1 {
                    // In an open stream each journey belongs to a new user, and each request of a group.
                    self.phase.driver.depart(&mut connection);
                }
                self.turn_to(&stream, &mut connection, Some(client_slot.node.get()), false);
                let start = Start::new(scheduled, Instant::now());
                if stream_plan.together {
                    self.request(&stream, &mut connection, seat, ticket, step, start).await;
                } else {
                    self.walk(&stream, &mut connection, seat, ticket, start).await;
                }
                idle.put(client_slot.clone());
            } else if closing.get() {
                return;
            } else {
                client_slot.woken().await;
            }
        }
    }
}
