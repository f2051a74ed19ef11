//! One worker: a thread with a runtime of its own, its share of every stream's clients, and a recorder.
//!
//! Workers share nothing while load runs, except how far counters have come ([`crate::client::counters`]). What the
//! clients of one worker share (the recorder, a stream's count) stays on their thread, behind plain cells. How clients
//! of closed and open streams take their turns, and what they do for one request, are in the modules below.

mod balance;
mod closed;
pub mod counters;
mod ending;
pub mod first_executions;
mod ingest;
mod open;
pub mod phase;
mod request;
pub mod retry_state;
pub mod stream_plan;
mod users;
mod visibility_probe;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::client::counters::Count;
use crate::client::phase::{Leftover, Phase};
use crate::driver::Driver;
use crate::pacing::schedule::{Due, Stride};
use crate::pacing::timer::Timer;
use crate::plan::Pacing;
use crate::recording::recorder::Recorder;
use crate::recording::self_monitor::TICK;
use crate::recording::stream_end::StreamEnd;
use crate::util::draw::hash_name;
use crate::workload::numbering::Use;
use balance::Balance;
pub use request::unsent;
use users::{UserConfig, UserPool};

/// After this many requests without a wait a client lets the others of its thread run.
const TURNS: u32 = 64;

/// The pause after a request that could not be sent, because the client could not connect or lacked a value.
const PAUSE: Duration = Duration::from_millis(10);

/// The pause doubles with each such request in a row, up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The pause after `unsent` requests in a row that could not be sent; none after a request that was sent.
fn back_off(unsent: u32) -> Duration {
    match unsent {
        0 => Duration::ZERO,
        _ => LONGEST_PAUSE.min(PAUSE * 2_u32.pow((unsent - 1).min(6))),
    }
}

struct Worker<D: Driver> {
    phase: Arc<Phase<D>>,
    start: Instant,
    timer: Timer,
    recorder: RefCell<Recorder>,
    /// How far its part of each stream has come.
    ends: Vec<Cell<StreamEnd>>,
    /// One place for each client: the request that it waits for.
    waiting: RefCell<Vec<Option<(usize, Instant)>>>,
    /// The users of each stream that has some.
    pools: RefCell<Vec<(usize, Rc<UserPool>)>>,
    /// How long after the phase's start it was there.
    began: Cell<Duration>,
    /// Wakes those who sleep when a stream has ended the phase.
    over: Notify,
}

/// A client: its number over all generators, and its place among the waiting clients of this worker.
#[derive(Clone, Copy)]
struct ClientSeat {
    client: u64,
    place: usize,
}

/// An iteration that a client is to walk through.
#[derive(Clone, Copy)]
struct Iteration {
    /// Its number in the stream.
    iteration: u64,
    /// Which of the stream's counters it uses, and the first number that it takes of that, if it uses one.
    uses: Use,
    /// The place of its operation in a mix whose operations alternate.
    turn: Option<usize>,
}

/// This worker's part of a stream.
struct Stream {
    index: usize,
    key: u64,
    share: Stride,
    issued: Cell<u64>,
    /// For a stream whose requests use a counter.
    count: Option<RefCell<Count>>,
    /// For clients that may ask any node, where the driver leaves the choice to the engine.
    balance: Option<RefCell<Balance>>,
    /// Whether clients may ask any node; those of a closed loop keep to one.
    roams: bool,
    /// Requests so far, by choice.
    turns: Vec<Cell<u64>>,
    ends: Option<Instant>,
}

/// Runs the phase's load on this thread, worker number `thread` of its process, until its streams end or it has to
/// stop. A panic in any of its tasks is reported to the caller (see [`crate::util::panics`]), which then stops the
/// phase.
pub fn run<D: Driver>(
    phase: &Arc<Phase<D>>,
    thread: u64,
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
            // A stream has something left to send until it is known that it has not.
            ends: vec![Cell::new(StreamEnd { ran_out: false, ..StreamEnd::NOTHING }); phase.plan.streams.len()],
            waiting: RefCell::default(),
            pools: RefCell::default(),
            began: Cell::new(Duration::ZERO),
            over: Notify::new(),
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
            streams.spawn_local(worker.clone().stream(index, thread));
        }
        let mut lookers = JoinSet::new();
        for (index, source) in phase.sources.iter().enumerate() {
            let sampled = source.as_ref().filter(|source| source.probes.is_some());
            if let Some(source) = sampled.filter(|_| thread == 0) {
                lookers.spawn_local(worker.clone().look_for_events(index, source.clone()));
            }
        }
        let all = async {
            while streams.join_next().await.is_some() {}
            while lookers.join_next().await.is_some() {}
        };
        let broken = tokio::select! {
            () = all => None,
            () = stopped.notified() => None,
            // Without its timer a worker would wait for ever, and without its ticker it could not be stopped.
            watched = watch.join_next() => watched,
        };
        // Clients that still wait are abandoned. Some may be answered meanwhile, and wait no longer.
        streams.shutdown().await;
        lookers.shutdown().await;
        watch.shutdown().await;
        worker.unsent();
        let (now, waiting) = (Instant::now(), worker.waiting.borrow());
        let in_flight = waiting.iter().flatten().map(|&(slot, scheduled)| (slot, now - scheduled)).collect();
        worker.recorder.borrow_mut().finish(now, &waiting);
        if let Some(Ok(Err(error))) = broken {
            return Err(error);
        }
        let streams = worker.ends.iter().map(Cell::get).collect();
        Ok(Leftover { in_flight, streams, began: worker.began.get(), ended: now.saturating_duration_since(start) })
    })
}

impl<D: Driver> Worker<D> {
    /// Measures how late the event loop is, turns the seconds, and listens for the order to stop.
    async fn tick(&self, stopped: &Notify) {
        // Whoever waits for a start that ranks have agreed on can be told to stop.
        while !self.phase.stop.load(Ordering::Relaxed) && Instant::now() + TICK < self.start {
            self.timer.sleep_until(Instant::now() + TICK).await;
        }
        let mut due = if self.phase.stop.load(Ordering::Relaxed) { Instant::now() } else { self.start };
        self.timer.sleep_until(due).await;
        self.began.set(Instant::now().saturating_duration_since(self.start));
        loop {
            self.timer.sleep_until(due).await;
            due = self.recorder.borrow_mut().look(Instant::now(), &self.waiting.borrow());
            if self.phase.stop.load(Ordering::Relaxed) {
                stopped.notify_one();
            }
            if self.phase.ended.get().is_some() {
                self.over.notify_waiters();
            }
        }
    }

    /// This worker's part of a stream, whose end may be that of the phase.
    async fn stream(self: Rc<Self>, index: usize, thread: u64) {
        self.clone().serve_stream(index, thread).await;
        self.phase.part_ended(index);
        if self.phase.ended.get().is_some() {
            self.over.notify_waiters();
        }
    }

    /// This worker's part of a stream, from the phase's start to the stream's end.
    async fn serve_stream(self: Rc<Self>, index: usize, thread: u64) {
        let phase = &self.phase;
        let plan = &phase.plan.streams[index];
        let ends = phase.plan.clock(index).map(|duration| self.start + phase.plan.warmup + duration);
        let key = hash_name(&format!("{}/{}", phase.plan.phase, plan.name));
        let profile = &phase.profiles[index];
        // No more threads take part than there are clients, or than there may be requests in flight; their shares add
        // up.
        let parts = match plan.pacing {
            Pacing::Closed { .. } => profile.greatest() as u64,
            Pacing::Open { max_in_flight, .. } => max_in_flight,
            Pacing::Users { users, clients, .. } => users.min(clients),
            Pacing::Source { workers, .. } => workers,
        };
        let share = Stride::new(phase.plan.rank, phase.plan.ranks, thread, phase.plan.threads).among(parts);
        self.nothing_left(index, share.is_none());
        let mut clients = JoinSet::new();
        let mut stream = None;
        if let Some(share) = share {
            let stream_plan = &phase.stream_plans[index];
            let count = || Count::new(stream_plan, thread as usize, phase.plan.seed, key);
            let count = stream_plan.uses().next().map(|_| RefCell::new(count()));
            let roams = !matches!(plan.pacing, Pacing::Closed { .. });
            let nodes = if roams { phase.driver.nodes(share.index, share.of) } else { None };
            let balance =
                Balance::new(nodes, stream_plan.choices.len(), share.index, share.count(parts)).map(RefCell::new);
            let turns = vec![Cell::new(0); stream_plan.choices.len()];
            let issued = Cell::new(0);
            let part = Rc::new(Stream { index, key, share, issued, count, balance, roams, turns, ends });
            stream = Some(part.clone());
            match plan.pacing {
                Pacing::Closed { think_time, .. } => {
                    for client in share.numbers(parts) {
                        // Client number c is present while the level is above c.
                        let stretches = profile.at_least(client as f64 + 1.0);
                        clients.spawn_local(self.clone().closed(part.clone(), client, stretches, think_time));
                    }
                }
                Pacing::Open { arrivals, .. } => {
                    let due = Due::new(profile.clone(), arrivals, share, phase.plan.seed, key);
                    self.clone().open(part, due, share.count(parts), &mut clients).await;
                }
                Pacing::Users { users, think_time, over, .. } => {
                    let config = UserConfig { users, think_time, over };
                    self.clone().users(part, config, parts, thread as usize, &mut clients).await;
                }
                Pacing::Source { .. } => {
                    let source = phase.sources[index].as_ref().expect("each such stream has its source");
                    for client in share.numbers(parts) {
                        clients.spawn_local(self.clone().ingest(part.clone(), source.clone(), client));
                    }
                }
            }
        }
        let ends_itself = phase.limits[index].is_some() || phase.sources[index].is_some();
        let clock_ends = ends.filter(|_| !ends_itself && !clients.is_empty());
        // Requests in flight at the end are waited for, but not for ever.
        let give_up = ends.map(|ends| ends + phase.plan.drain);
        let all = async {
            while clients.join_next().await.is_some() {}
            match &stream {
                Some(part) => part.count.iter().for_each(|count| count.borrow().end(&phase.counters)),
                None => {
                    phase.stream_plans[index].uses().for_each(|counter| phase.counters[counter].end(thread as usize, 0))
                }
            }
            if let Some(ends) = clock_ends {
                // A part with nothing more to do until then, as at a low rate, still lasts until the end.
                self.sleep_until(ends).await;
            }
        };
        let give_up = async {
            match give_up {
                None => self.until_ended().await,
                Some(give_up) => tokio::select! {
                    () = self.timer.sleep_until(give_up) => {}
                    () = self.until_ended() => {}
                },
            }
        };
        tokio::select! {
            () = all => {}
            () = give_up => {}
        }
    }

    /// Records whether this worker has nothing left to send of a stream.
    fn nothing_left(&self, stream: usize, ran_out: bool) {
        self.ends[stream].set(StreamEnd { ran_out, ..self.ends[stream].get() });
    }

    fn seat(&self, client: u64) -> ClientSeat {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(None);
        ClientSeat { client, place: waiting.len() - 1 }
    }
}
