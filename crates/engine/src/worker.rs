//! One worker: a thread with a runtime of its own, its share of every stream's clients, and a recorder.
//!
//! Nothing is shared with other workers while load runs. What the clients of one worker share (the recorder, a
//! stream's counter) is theirs alone, on one thread, behind plain cells.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::draw::{Draw, hash_name};
use crate::driver::{Context, Driver, ErrorClass};
use crate::plan::{Pacing, Plan, Stop, Think};
use crate::profile::Profile;
use crate::recorder::{Recorder, Times};
use crate::rest::Rest;
use crate::schedule::{Due, Share, salt, think};
use crate::timer::Timer;

/// A client whose connection was refused, or whose request could not even be sent, waits so long before its next one, or
/// it would do nothing but fail.
const PAUSE: Duration = Duration::from_millis(100);

/// After so many requests without a wait a client lets the others of its thread go on.
const TURNS: u32 = 64;

/// An operation of a stream, mapped, with the upper end of its range in the mix.
pub struct Choice<D: Driver> {
    /// Ready to be executed.
    pub operation: D::Operation,
    /// Picked when the draw is below this (and not below the last choice's).
    pub below: f64,
    /// Its place in the recorder.
    pub slot: usize,
}

/// What a stream does in one iteration: a request picked from a mix, or a journey of several requests.
pub struct Course<D: Driver> {
    /// The mix's operations, or the journey's steps in their order.
    pub choices: Vec<Choice<D>>,
    /// What is thought after each step of a journey; empty for a mix.
    pub thinks: Vec<Think>,
}

impl<D: Driver> Course<D> {
    /// Requests of one iteration.
    pub fn steps(&self) -> u64 {
        self.thinks.len().max(1) as u64
    }
}

/// What all workers of a phase share, read-only.
pub struct Phase<D: Driver> {
    /// As it came.
    pub plan: Plan,
    /// The protocol.
    pub driver: D,
    /// What operations refer to.
    pub context: Context,
    /// Of each stream.
    pub courses: Vec<Course<D>>,
    /// The level of each stream's pacing.
    pub profiles: Vec<Profile>,
    /// How many iterations each stream has, where it has an end.
    pub limits: Vec<Option<u64>>,
    /// Set from outside: end now.
    pub stop: AtomicBool,
    /// What died in the generator, if anything has.
    pub failure: OnceLock<String>,
    /// Whether the clients that are there stay, and no others come.
    pub held: AtomicBool,
}

impl<D: Driver> Phase<D> {
    /// Ends the phase now, since a part of the generator has died: what it measures from here on is another load. What
    /// was said first is kept.
    pub fn fail(&self, what: String) {
        let _ = self.failure.set(what);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// How a stream ended, or a worker's part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    /// When its last request was done, after the phase's start.
    pub last_done: Duration,
    /// Whether it had nothing left to send: neither the clock ended it, nor an order.
    pub ran_out: bool,
}

impl StreamEnd {
    /// That of a part in which there was nothing to do.
    pub const NOTHING: Self = Self { last_done: Duration::ZERO, ran_out: true };

    /// That of two parts together.
    pub fn and(self, other: Self) -> Self {
        Self { last_done: self.last_done.max(other.last_done), ran_out: self.ran_out && other.ran_out }
    }
}

/// What a worker leaves behind beside its recordings.
#[derive(Clone, Debug, Default)]
pub struct Leftover {
    /// Requests in flight when the phase ended: their slot, and how long ago they had been scheduled.
    pub in_flight: Vec<(usize, Duration)>,
    /// How its part of each stream ended.
    pub streams: Vec<StreamEnd>,
    /// When the worker ended, after the phase's start.
    pub ended: Duration,
}

struct Worker<D: Driver> {
    phase: Arc<Phase<D>>,
    start: Instant,
    timer: Timer,
    recorder: RefCell<Recorder>,
    /// How its part of each stream has come so far.
    ends: Vec<Cell<StreamEnd>>,
    /// One place for each client: what it waits for.
    waiting: RefCell<Vec<Option<(usize, Instant)>>>,
}

/// A client: its number over all generators, and its place among those of this worker that wait.
#[derive(Clone, Copy)]
struct Seat {
    client: u64,
    place: usize,
}

/// This worker's part of a stream.
struct Stream {
    index: usize,
    key: u64,
    share: Share,
    issued: Cell<u64>,
    ends: Option<Instant>,
}

/// Runs the phase's load on this thread until its streams end or it is told to stop. A panic in any of its tasks is the
/// caller's to hear of (see [`crate::panics`]), who then has it stop.
pub fn run<D: Driver>(
    phase: &Arc<Phase<D>>,
    share: Share,
    start: Instant,
    recorder: Recorder,
) -> std::io::Result<Leftover> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let worker = Rc::new(Worker {
            phase: phase.clone(),
            start,
            timer: Timer::new()?,
            recorder: RefCell::new(recorder),
            // Until a stream is known to have nothing left it has.
            ends: vec![Cell::new(StreamEnd { ran_out: false, ..StreamEnd::NOTHING }); phase.plan.streams.len()],
            waiting: RefCell::default(),
        });
        let mut watch = JoinSet::new();
        let timer = worker.timer.clone();
        watch.spawn_local(async move { Err(timer.drive().await) });
        let stopped = Rc::new(Notify::new());
        let (ticker, tell) = (worker.clone(), stopped.clone());
        watch.spawn_local(async move {
            ticker.tick(&tell).await;
            Ok(())
        });

        let mut streams = JoinSet::new();
        for index in 0..phase.plan.streams.len() {
            streams.spawn_local(worker.clone().stream(index, share));
        }
        let all = async { while streams.join_next().await.is_some() {} };
        let broken = tokio::select! {
            () = all => None,
            () = stopped.notified() => None,
            // Without its timer a worker would wait for ever, and without its ticker nobody could stop it.
            watched = watch.join_next() => watched,
        };
        // Whoever still waits is given up. Some may be answered meanwhile, and wait no longer.
        streams.shutdown().await;
        watch.shutdown().await;
        let (now, waiting) = (Instant::now(), worker.waiting.borrow());
        let in_flight = waiting.iter().flatten().map(|&(slot, scheduled)| (slot, now - scheduled)).collect();
        worker.recorder.borrow_mut().finish(now, &waiting);
        if let Some(Ok(Err(error))) = broken {
            return Err(error);
        }
        let streams = worker.ends.iter().map(Cell::get).collect();
        Ok(Leftover { in_flight, streams, ended: now - start })
    })
}

impl<D: Driver> Worker<D> {
    /// Measures how late the event loop is, turns the seconds, and listens for the order to stop.
    async fn tick(&self, stopped: &Notify) {
        let mut due = self.start;
        loop {
            self.timer.sleep_until(due).await;
            due = self.recorder.borrow_mut().look(Instant::now(), &self.waiting.borrow());
            if self.phase.stop.load(Ordering::Relaxed) {
                stopped.notify_one();
            }
        }
    }

    async fn stream(self: Rc<Self>, index: usize, share: Share) {
        let plan = &self.phase.plan.streams[index];
        let ends = match plan.stop {
            Stop::Duration(seconds) => {
                Some(self.start + Duration::from_secs_f64(self.phase.plan.warmup) + Duration::from_secs_f64(seconds))
            }
            Stop::Requests(_) | Stop::Exhausted => None,
        };
        let key = hash_name(&format!("{}/{}", self.phase.plan.phase, plan.name));
        let stream = |share| Rc::new(Stream { index, key, share, issued: Cell::new(0), ends });
        let mut clients = JoinSet::new();
        let profile = &self.phase.profiles[index];
        match plan.pacing {
            Pacing::Closed { think_time, .. } => {
                let total = profile.greatest() as u64;
                self.nothing_left(index, share.among(total).is_none());
                if let Some(own) = share.among(total) {
                    let stream = stream(own);
                    for client in own.own(total) {
                        // Client number c is there while the level is above c.
                        let stretches = profile.at_least(client as f64 + 1.0);
                        clients.spawn_local(self.clone().closed(stream.clone(), client, stretches, think_time));
                    }
                }
            }
            Pacing::Open { arrivals, max_in_flight, .. } => {
                // No more threads take part than there may be requests in flight, and their shares of these add up.
                self.nothing_left(index, share.among(max_in_flight).is_none());
                if let Some(own) = share.among(max_in_flight) {
                    let due = Due::new(profile.clone(), arrivals, own, self.phase.plan.seed, key);
                    self.clone().open(stream(own), due, own.count(max_in_flight), &mut clients).await;
                }
            }
        }
        let clock_ends = ends.filter(|_| self.phase.limits[index].is_none() && !clients.is_empty());
        // Requests in flight at the end are waited for, but not for ever.
        let give_up = ends.map(|ends| ends + Duration::from_secs_f64(self.phase.plan.drain));
        let all = async {
            while clients.join_next().await.is_some() {}
            if let Some(ends) = clock_ends {
                // Who has nothing more to do until then, as at a low rate, is there all the same.
                self.timer.sleep_until(ends).await;
            }
        };
        match give_up {
            None => all.await,
            Some(give_up) => tokio::select! {
                () = all => {}
                () = self.timer.sleep_until(give_up) => {}
            },
        }
    }

    /// A closed loop: the next iteration is due when the last is over and the think time too. `stretches` are when the
    /// client is there, seconds after the phase's start.
    async fn closed(self: Rc<Self>, stream: Rc<Stream>, client: u64, stretches: Vec<(f64, f64)>, think_time: Think) {
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        let mut turns = 0;
        for (from, to) in stretches {
            let mut scheduled = self.start + Duration::from_secs_f64(from);
            let mut here = false;
            let leaves = Duration::try_from_secs_f64(to).ok().and_then(|to| self.start.checked_add(to));
            loop {
                // Asked before sleeping too: a thought must not outlast the phase.
                let over = |now| stream.ends.is_some_and(|ends| now >= ends);
                if over(scheduled) {
                    return;
                }
                self.timer.sleep_until(scheduled).await;
                if over(Instant::now()) {
                    return;
                }
                let held = self.phase.held.load(Ordering::Relaxed);
                if held && !here {
                    return;
                }
                here = true;
                if !held && leaves.is_some_and(|leaves| scheduled >= leaves) {
                    break;
                }
                let Some(n) = self.next(&stream) else {
                    self.nothing_left(stream.index, true);
                    return;
                };
                let (k, done, refused) = self.walk(&stream, &mut connection, seat, n, scheduled).await;
                let thought = think(&think_time, &self.draw(&stream, k));
                scheduled = done + if refused { thought.max(PAUSE) } else { thought };
                turns += 1;
                if turns % TURNS == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// An open loop: hands each request to an idle client at its instant, or drops it if all are in flight.
    async fn open(self: Rc<Self>, stream: Rc<Stream>, schedule: Due, most: u64, clients: &mut JoinSet<()>) {
        let idle: Rc<RefCell<Vec<Rc<Desk>>>> = Rc::default();
        let closing = Rc::new(Cell::new(false));
        let mut desks: Vec<Rc<Desk>> = Vec::new();
        let mut turns = 0;
        for (k, due) in schedule {
            let scheduled = self.start + due;
            if stream.ends.is_some_and(|ends| scheduled >= ends) {
                break;
            }
            if self.phase.limits[stream.index].is_some_and(|limit| k >= limit) {
                self.nothing_left(stream.index, true);
                break;
            }
            self.timer.sleep_until(scheduled).await;
            turns += 1;
            if turns % TURNS == 0 {
                // A schedule that has fallen behind must not keep its own clients from the answers.
                tokio::task::yield_now().await;
            }
            let next = idle.borrow_mut().pop();
            if let Some(desk) = next {
                desk.hand(k, scheduled);
            } else if (desks.len() as u64) < most {
                let desk = Rc::new(Desk::default());
                desk.hand(k, scheduled);
                desks.push(desk.clone());
                let client = stream.share.index + stream.share.of * (desks.len() as u64 - 1);
                clients.spawn_local(self.clone().serve(stream.clone(), client, desk, idle.clone(), closing.clone()));
            } else {
                let first = k * self.phase.courses[stream.index].steps();
                let slot = self.pick(&stream, first, 0).slot;
                self.recorder.borrow_mut().dropped(slot, scheduled, Instant::now(), &self.waiting.borrow());
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
            if let Some((n, scheduled)) = desk.order.take() {
                if self.phase.courses[stream.index].steps() > 1 {
                    // Who walks a journey in an open stream has just arrived.
                    self.phase.driver.depart(&mut connection);
                }
                self.walk(&stream, &mut connection, seat, n, scheduled).await;
                idle.borrow_mut().push(desk.clone());
            } else if closing.get() {
                return;
            } else {
                desk.bell.notified().await;
            }
        }
    }

    /// Iteration `n`: one request, or all of a journey's. Returns the last request's number, when it was done, and
    /// whether nobody answered it.
    async fn walk(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: Seat,
        n: u64,
        scheduled: Instant,
    ) -> (u64, Instant, bool) {
        let course = &self.phase.courses[stream.index];
        let (steps, first) = (course.steps(), n * course.steps());
        let (mut done, mut refused) = self.request(stream, connection, seat, first, 0, scheduled).await;
        for step in 1..steps {
            let k = first + step;
            let scheduled = done + think(&course.thinks[step as usize - 1], &self.draw(stream, k - 1));
            if stream.ends.is_some_and(|ends| scheduled >= ends) {
                return (k - 1, done, refused);
            }
            self.timer.sleep_until(scheduled).await;
            (done, refused) = self.request(stream, connection, seat, k, step as usize, scheduled).await;
        }
        (first + steps - 1, done, refused)
    }

    /// One request, from its scheduled instant to its record. Returns when it was done, and whether nobody answered.
    async fn request(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: Seat,
        k: u64,
        step: usize,
        scheduled: Instant,
    ) -> (Instant, bool) {
        let started = Instant::now();
        let choice = self.pick(stream, k, step);
        let draw = Draw { user: seat.client, ..self.draw(stream, k) };
        self.waiting.borrow_mut()[seat.place] = Some((choice.slot, scheduled));
        let times = Times { scheduled, started, ends: stream.ends };
        let most = self.phase.plan.streams[stream.index].retries;
        let mut retries = 0;
        let (driver, context) = (&self.phase.driver, &self.phase.context);
        let mut rest = Rest::default();
        let reply = loop {
            let reply = match rest.documents() {
                None => driver.execute(connection, &choice.operation, context, &draw).await,
                Some(left) => driver.resume(connection, &choice.operation, context, &draw, left).await,
            };
            if retries == most || !Rest::may_pass(&reply) {
                break rest.settle(reply);
            }
            retries += 1;
            rest.after(&reply);
            self.recorder.borrow_mut().attempt(choice.slot, times, reply, &self.waiting.borrow());
        };
        let done = reply.done;
        let failed = reply.outcome.as_ref().err();
        let refused = failed.is_some_and(|failure| failure.class == ErrorClass::Connect || reply.bytes_sent == 0);
        let end = &self.ends[stream.index];
        end.set(StreamEnd { last_done: end.get().last_done.max(done - self.start), ..end.get() });
        // Until it is written down the request is in flight: it may be what shows that a second has ended.
        self.recorder.borrow_mut().request(choice.slot, times, reply, &self.waiting.borrow());
        self.waiting.borrow_mut()[seat.place] = None;
        (done, refused)
    }

    /// This worker's next iteration of a closed stream; `None` when the stream has no more.
    fn next(&self, stream: &Stream) -> Option<u64> {
        let issued = stream.issued.get();
        stream.issued.set(issued + 1);
        let n = stream.share.index + issued * stream.share.of;
        self.phase.limits[stream.index].is_none_or(|limit| n < limit).then_some(n)
    }

    /// Notes whether this worker has nothing left to send of a stream.
    fn nothing_left(&self, stream: usize, ran_out: bool) {
        self.ends[stream].set(StreamEnd { ran_out, ..self.ends[stream].get() });
    }

    #[inline]
    fn draw(&self, stream: &Stream, k: u64) -> Draw {
        let iteration = k / self.phase.courses[stream.index].steps();
        Draw { iteration, ..Draw::new(self.phase.plan.seed, stream.key, k) }
    }

    #[inline]
    fn pick(&self, stream: &Stream, k: u64, step: usize) -> &Choice<D> {
        let course = &self.phase.courses[stream.index];
        match course.choices.as_slice() {
            [only] => only,
            steps if !course.thinks.is_empty() => &steps[step],
            mix => {
                let draw = self.draw(stream, k).unit(salt::MIX);
                mix.iter().find(|choice| draw < choice.below).unwrap_or(&mix[mix.len() - 1])
            }
        }
    }

    fn seat(&self, client: u64) -> Seat {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(None);
        Seat { client, place: waiting.len() - 1 }
    }
}

/// Where an open stream leaves a request for one of its clients.
#[derive(Default)]
struct Desk {
    order: Cell<Option<(u64, Instant)>>,
    bell: Notify,
}

impl Desk {
    fn hand(&self, k: u64, scheduled: Instant) {
        self.order.set(Some((k, scheduled)));
        self.bell.notify_one();
    }
}
