//! Users of a stream. Many users share few clients, so a user has neither a task nor a connection. A
//! dispatcher sleeps until the next user is due, then an idle client sends the user's request.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::future::pending;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::balance::{ClientSlot, Idle};
use super::request::{Start, unsent};
use super::{ClientSeat, Stream, TURNS, Worker, back_off};
use crate::driver::{Driver, Failure, NO_NODE, Reply};
use crate::pacing::schedule::think;
use crate::pacing::simulated_clock::SimulatedClock;
use crate::plan::{Missing, Think};
use crate::reactor;
use crate::recording::recorder::Times;
use crate::workload::journey::Journey;
use crate::workload::journey::user::{Next, Scene, TimedSteps, User, UserRequest};

/// A due user, with the due time and the time when the generator noticed it.
type Due = (u32, Start);

/// This worker's users of a stream.
#[derive(Default)]
pub(super) struct UserPool {
    users: RefCell<Vec<User>>,
    /// Users in think time, with the end of that time.
    thinking: RefCell<BinaryHeap<Reverse<(Instant, u32)>>>,
    /// Due users, with the due time and the time when the generator noticed it.
    ready: RefCell<VecDeque<Due>>,
    /// Users that wait for the simulated clock, with the simulated time.
    parked: RefCell<BinaryHeap<Reverse<(i64, u32)>>>,
    /// The last clock step for which waiting users were released.
    released: Cell<u64>,
    /// Number of users with journeys left.
    left: Cell<u64>,
    /// Idle clients.
    idle: Idle<Due>,
    /// All clients.
    client_slots: RefCell<Vec<Rc<ClientSlot<Due>>>>,
    /// Wakes the dispatcher before its timer.
    news: Notify,
    sleeps_until: Cell<Option<Instant>>,
    closing: Cell<bool>,
}

/// Start and think times of a stream's users.
#[derive(Clone, Copy)]
pub(super) struct UserConfig {
    pub users: u64,
    pub think_time: Think,
    /// Time between the starts of a user's journeys; 0 for none.
    pub pacing: Duration,
    /// Time between the starts of the first and the last user.
    pub over: Duration,
}

impl<D: Driver> Worker<D> {
    /// Runs this worker's users until the stream ends or all have finished. `clients`: number of clients over all
    /// ranks that send their requests; this worker's are spawned into `tasks`. `thread`: this worker's number in its
    /// process. Does nothing without a journey.
    pub(super) async fn users(
        self: Rc<Self>,
        stream: Rc<Stream>,
        config: UserConfig,
        clients: u64,
        thread: usize,
        tasks: &mut JoinSet<()>,
    ) {
        let Some(journey) = &self.phase.stream_plans[stream.index].journey else { return };
        let pool = Rc::new(UserPool::default());
        self.pools.borrow_mut().push((stream.index, pool.clone()));
        let scene = self.scene(&stream, journey, config);
        let numbers = stream.share.numbers(config.users);
        pool.users.borrow_mut().extend(numbers.map(|number| User::new(number, journey)));
        let count = pool.users.borrow().len();
        pool.left.set(count as u64);
        for place in 0..count {
            let part = pool.users.borrow()[place].number as f64 / config.users as f64;
            let begin = self.start + config.over.mul_f64(part);
            pool.users.borrow_mut()[place].journey_began = (begin - self.start).as_nanos() as u64;
            pool.thinking.borrow_mut().push(Reverse((begin, place as u32)));
        }
        for client in stream.share.numbers(clients) {
            tasks.spawn_local(self.clone().attend(stream.clone(), client, pool.clone(), config));
        }
        self.dispatch(&stream, &pool, &scene, thread).await;
        pool.closing.set(true);
        pool.client_slots.borrow().iter().for_each(|client_slot| client_slot.wake());
    }

    /// Hands due users to clients until all users have finished or the stream is over. `thread`: this worker's number
    /// in its process.
    async fn dispatch(&self, stream: &Stream, pool: &UserPool, scene: &Scene<'_>, thread: usize) {
        let simulated_clock = self.phase.simulated_clocks[stream.index].as_ref();
        let mut turns = 0;
        loop {
            if let Some(simulated_clock) = simulated_clock {
                self.release(stream, pool, scene, simulated_clock);
            }
            if pool.left.get() == 0 {
                return self.set_ran_out(stream.index, true);
            }
            let now = Instant::now();
            let next = pool.thinking.borrow().peek().map(|Reverse((due, _))| *due);
            if next.is_none_or(|due| due > now) && self.is_over(stream, now) {
                return;
            }
            if let Some(due) = next.filter(|due| *due <= now) {
                if self.is_over(stream, due) {
                    return;
                }
                let place = pool.thinking.borrow_mut().pop().map_or(0, |Reverse((_, place))| place);
                if pool.users.borrow()[place as usize].asks(scene.journey) {
                    pool.ready.borrow_mut().push_back((place, Start::new(due, now)));
                    self.call(stream, pool, scene);
                } else if self.go_on(stream, pool, scene, place, due, due) {
                    self.call(stream, pool, scene);
                }
                turns += 1;
                if turns % TURNS == 0 {
                    reactor::yield_now().await;
                }
                continue;
            }
            let wake = [next, self.ends(stream)].into_iter().flatten().min();
            pool.sleeps_until.set(wake);
            let sleep = async {
                match wake {
                    Some(wake) => self.sleep_until(stream, wake).await,
                    None if !self.phase.may_end_early() => pending().await,
                    None => self.over.notified().await,
                }
            };
            let moved = async {
                match simulated_clock {
                    Some(simulated_clock) => simulated_clock.moved(thread).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = sleep => {}
                () = pool.news.notified() => {}
                () = moved => {}
            }
        }
    }

    /// Continues the users that waited for the latest step of the simulated clock. All are due at the time of the
    /// step. Does nothing if this step was handled before.
    fn release(&self, stream: &Stream, pool: &UserPool, scene: &Scene, simulated_clock: &SimulatedClock) {
        let Some(step) = simulated_clock.latest().filter(|step| step.number > pool.released.get()) else { return };
        pool.released.set(step.number);
        // Collect them first: a user that waits again at once must wait for the next step.
        let mut places = Vec::new();
        {
            let mut parked = pool.parked.borrow_mut();
            while let Some(first) = parked.peek_mut().filter(|first| first.0.0 <= step.to) {
                places.push(PeekMut::pop(first).0.1);
            }
        }
        for place in places {
            pool.users.borrow_mut()[place as usize].instant = step.to;
            if self.go_on(stream, pool, scene, place, step.at, step.at) {
                self.call(stream, pool, scene);
            }
        }
    }

    /// Sends the requests of due users as client number `client`, one after the other, until the pool closes.
    async fn attend(self: Rc<Self>, stream: Rc<Stream>, client: u64, pool: Rc<UserPool>, config: UserConfig) {
        let Some(journey) = &self.phase.stream_plans[stream.index].journey else { return };
        let scene = self.scene(&stream, journey, config);
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        let client_slot = ClientSlot::new(None, stream.first_node(pool.client_slots.borrow().len()));
        pool.client_slots.borrow_mut().push(client_slot.clone());
        let mut turns = 0;
        loop {
            let next = client_slot.take().or_else(|| {
                let (place, start) = pool.ready.borrow_mut().pop_front()?;
                let choice = pool.users.borrow()[place as usize].wants(journey).unwrap_or(0);
                let node = stream.near_node(choice, client_slot.node.get());
                stream.count_node(choice, node);
                client_slot.node.set(node.unwrap_or(0));
                Some((place, start))
            });
            let Some((place, start)) = next else {
                if pool.closing.get() {
                    return;
                }
                pool.idle.put(client_slot.clone());
                client_slot.woken().await;
                continue;
            };
            self.turn_to(&stream, &mut connection, Some(client_slot.node.get()), false);
            self.serve_user(&stream, &pool, &scene, &mut connection, seat, place, start).await;
            turns += 1;
            if turns % TURNS == 0 {
                reactor::yield_now().await;
            }
        }
    }

    /// Hands the first due user to an idle client: at the least-loaded node, otherwise at any node. Does nothing if no
    /// user is due or no client is idle.
    fn call(&self, stream: &Stream, pool: &UserPool, scene: &Scene) {
        let mut ready = pool.ready.borrow_mut();
        let Some(&(place, start)) = ready.front() else { return };
        let choice = pool.users.borrow()[place as usize].wants(scene.journey).unwrap_or(0);
        let due = stream.due_node(choice);
        let Some(client_slot) = pool.idle.take(due.unwrap_or(0)).or_else(|| pool.idle.take_any()) else { return };
        let node = stream.near_node(choice, client_slot.node.get());
        stream.count_node(choice, node);
        ready.pop_front();
        client_slot.hand((place, start), node.unwrap_or(0));
    }

    /// Sends the current request of user number `place` of the pool, records it and moves the user to its next step.
    /// Skips it without a record if it checks a write that failed. If a captured value is missing, it is skipped or
    /// recorded as a failure that was not sent, after which the user may leave the journey, as the plan says.
    /// `start`: its due time, and when the generator noticed it.
    #[allow(clippy::too_many_arguments)]
    async fn serve_user(
        &self,
        stream: &Stream,
        pool: &UserPool,
        scene: &Scene<'_>,
        connection: &mut D::Connection,
        seat: ClientSeat,
        place: u32,
        start: Start,
    ) {
        let request = {
            let user = &mut pool.users.borrow_mut()[place as usize];
            let failed = user.write_failed();
            user.ask(scene).map(|asking| (asking, std::mem::take(&mut user.memory), failed))
        };
        let Some((UserRequest { choice, mut draw, think_time, missing }, mut memory, failed)) = request else { return };
        let choice = &self.phase.stream_plans[stream.index].choices[choice];
        (draw.turn, draw.roams) = (stream.turn(choice.number), true);
        // Skip the visibility check of a failed write.
        let skips = failed && choice.visible.is_some();
        let lacks = choice.lacks(|slot| memory.has(slot));
        // Records carry the user's number, since any client may send its requests.
        let seat = ClientSeat { client: draw.user, ..seat };
        if let Some(counter) = choice.reads {
            draw.settled = self.phase.counters[counter].settled();
        }
        let mut leaves = false;
        let (done, failed) = match lacks {
            _ if skips => (Instant::now(), None),
            Some(_) if missing == Missing::Skip => (Instant::now(), None),
            Some(name) => {
                leaves = missing == Missing::Leave;
                let outcome = self.record(stream, choice, seat, start, unsent(name));
                (outcome.done, Some((outcome.failed, false)))
            }
            None => {
                if let Some(kept) = self.phase.driver.memory(connection) {
                    std::mem::swap(kept, &mut memory);
                }
                let outcome = self.ask(stream, connection, seat, choice, &mut draw, start).await;
                if let Some(kept) = self.phase.driver.memory(connection) {
                    std::mem::swap(kept, &mut memory);
                }
                (outcome.done, Some((outcome.failed, outcome.was_sent)))
            }
        };
        let mut due = done;
        {
            let user = &mut pool.users.borrow_mut()[place as usize];
            user.memory = memory;
            if let Some((failed, was_sent)) = failed {
                user.unsent = if was_sent { 0 } else { user.unsent.saturating_add(1) };
                due += think(&think_time, &draw).max(back_off(user.unsent.into()));
                user.answered(failed);
            }
            if leaves {
                user.leave(scene, done, |steps| self.record_timed(stream, steps));
            }
        }
        // This client takes the next due user itself; wake another only if more are due.
        if self.go_on(stream, pool, scene, place, done, due) && pool.ready.borrow().len() > 1 {
            self.call(stream, pool, scene);
        }
    }

    /// Advances user number `place` of the pool to its next request, wait or end, and puts it into the matching queue.
    /// `now`: end of its last step. `due`: end of its think time. Returns whether its next request is due at once and
    /// queued in `ready`.
    fn go_on(&self, stream: &Stream, pool: &UserPool, scene: &Scene, place: u32, now: Instant, due: Instant) -> bool {
        let simulated_clock = self.phase.simulated_clocks[stream.index].as_ref();
        let (next, asks) = {
            let user = &mut pool.users.borrow_mut()[place as usize];
            let timed = |steps| self.record_timed(stream, steps);
            let paced = |begun, done| self.paced(stream, begun, done, scene.pacing);
            (user.advance(scene, now, due, timed, paced), user.asks(scene.journey))
        };
        match next {
            Next::Due(due) => {
                // A user that is due at once skips the dispatcher.
                if asks && due <= now && !self.is_over(stream, due) {
                    pool.ready.borrow_mut().push_back((place, Start::new(due, due)));
                    return true;
                }
                pool.thinking.borrow_mut().push(Reverse((due, place)));
                if pool.sleeps_until.get().is_none_or(|until| due < until) {
                    pool.news.notify_one();
                }
            }
            Next::Park(until) => {
                pool.parked.borrow_mut().push(Reverse((until, place)));
                if let Some(simulated_clock) = simulated_clock {
                    simulated_clock.park(until);
                }
            }
            Next::Through => {
                pool.left.set(pool.left.get() - 1);
                if let Some(simulated_clock) = simulated_clock {
                    simulated_clock.leave();
                }
                if pool.left.get() == 0 {
                    pool.news.notify_one();
                }
            }
        }
        false
    }

    /// Records steps that are timed together as one request, sent when due. It fails if `failed` has an error class.
    fn record_timed(&self, stream: &Stream, TimedSteps { user, slot, began, done, failed }: TimedSteps) {
        let why = |class| Failure::new(class, "one of the requests in it failed");
        let outcome = failed.map_or(Ok(()), |class| Err(why(class)));
        let reply = Reply { node: NO_NODE, ..Reply::new(began, done, outcome) };
        let times = Times { scheduled: began, started: began, ends: self.ends(stream), client: user, trace: None };
        self.recorder.borrow_mut().group(slot, times, reply, &self.waiting.borrow());
    }

    /// Adds the requests of users that still wait for a client to the requests in flight, as due but not sent.
    pub(super) fn unsent(&self) {
        for (stream, pool) in self.pools.borrow().iter() {
            let stream_plan = &self.phase.stream_plans[*stream];
            let Some(journey) = &stream_plan.journey else { continue };
            let handed =
                pool.client_slots.borrow().iter().filter_map(|client_slot| client_slot.take()).collect::<Vec<_>>();
            for (place, start) in pool.ready.borrow().iter().chain(&handed) {
                if let Some(choice) = pool.users.borrow()[*place as usize].wants(journey) {
                    self.waiting.borrow_mut().push(Some((stream_plan.choices[choice].slot, start.scheduled)));
                }
            }
        }
    }

    /// Returns the context that the users of a stream share, from its journey and its times.
    fn scene<'a>(&self, stream: &Stream, journey: &'a Journey, config: UserConfig) -> Scene<'a> {
        let UserConfig { think_time, pacing, .. } = config;
        Scene { journey, think_time, pacing, seed: self.phase.plan.seed, key: stream.key, start: self.start }
    }
}
