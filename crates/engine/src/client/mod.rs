//! Worker: a thread with its own runtime and recorder, and its share of every stream's clients.
//!
//! While load runs, workers share only the progress of counters ([`crate::client::counters`]). The state
//! shared by one worker's clients (the recorder, a stream's count) stays on its thread, in plain cells. The
//! submodules implement closed and open loops, users, ingestion, and single requests.

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
use std::panic::resume_unwind;
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
use crate::plan::Pacing;
use crate::reactor;
use crate::reactor::timer::Timer;
use crate::recording::recorder::Recorder;
use crate::recording::self_monitor::TICK;
use crate::recording::stream_end::StreamEnd;
use crate::util::draw::hash_name;
use crate::workload::numbering::Use;
use balance::Balance;
pub use request::unsent;
use retry_state::RetryBudget;
use users::{UserConfig, UserPool};

/// After this many requests without a wait a client yields to the other clients of its thread.
const TURNS: u32 = 64;

/// Back-off after a request that was not sent, because the client could not connect or lacked a value.
const PAUSE: Duration = Duration::from_millis(10);

/// Maximum back-off. It doubles with each such request in a row.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Returns the back-off of a client after `unsent` consecutive requests that were not sent: 0 after none, 10 ms after
/// one, doubled with each further one up to 500 ms.
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
    /// State of its part of each stream.
    ends: Vec<Cell<StreamEnd>>,
    /// The request in flight of each client.
    waiting: RefCell<Vec<Option<(usize, Instant)>>>,
    /// The users of each stream that has users.
    pools: RefCell<Vec<(usize, Rc<UserPool>)>>,
    /// When the worker was ready, after the phase's start.
    began: Cell<Duration>,
    /// Wakes sleeping tasks when a stream has ended the phase.
    over: Notify,
}

/// A client: its number over all ranks, and its index among this worker's clients.
#[derive(Clone, Copy)]
struct ClientSeat {
    client: u64,
    place: usize,
}

/// An iteration for a client to run.
#[derive(Clone, Copy)]
struct Iteration {
    /// Its number in the stream.
    iteration: u64,
    /// The counter that it uses, and the first number that it takes.
    uses: Use,
    /// Index of its operation in a permuted mix.
    turn: Option<usize>,
}

/// This worker's part of a stream.
struct Stream {
    index: usize,
    key: u64,
    share: Stride,
    issued: Cell<u64>,
    /// Set if the stream's requests use a counter.
    count: Option<RefCell<Count>>,
    /// Set if clients may use any node and the engine selects the node.
    balance: Option<RefCell<Balance>>,
    /// Whether clients may switch nodes. Closed-loop clients keep their node.
    roams: bool,
    /// Requests so far, by choice.
    turns: Vec<Cell<u64>>,
    /// Batches of a source sent so far.
    batches: Cell<u64>,
    retry_budget: RetryBudget,
    /// Length of its measured window, if the clock ends it.
    lasts: Option<Duration>,
}

/// Runs the load of worker `thread` of its process on the calling thread, until its streams end or the phase stops.
/// `start`: start of the phase. Returns the requests still in flight and the state of each stream, or the error of the
/// runtime or the timer. A panic in one of its tasks is reported to the caller (see [`crate::util::panics`]), which
/// then stops the phase.
pub fn run<D: Driver>(
    phase: &Arc<Phase<D>>,
    thread: u64,
    start: Instant,
    recorder: Recorder,
) -> std::io::Result<Leftover> {
    let (uses_tokio, spins) = (phase.driver.uses_tokio(), phase.plan.spin);
    let local = tokio::task::LocalSet::new();
    // Every wake-up of any task polls the future of `block_on`, so that future does nothing but wait for this task.
    let phase = phase.clone();
    let supervisor = local.spawn_local(async move {
        if phase.plan.kernel_timestamps {
            reactor::timestamp_connections();
        }
        let worker = Rc::new(Worker {
            phase: phase.clone(),
            start,
            timer: reactor::timer(phase.plan.spin)?,
            recorder: RefCell::new(recorder),
            // Each stream counts as having requests left until its part ends.
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
            // Without its timer a worker would never wake; without its ticker it could not be stopped.
            watched = watch.join_next() => watched,
        };
        // Abandon clients that still wait. Some may receive their answer during the shutdown.
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
    });
    let ended = if uses_tokio {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        local.block_on(&runtime, supervisor)
    } else {
        reactor::block_on(spins, async move { local.run_until(supervisor).await })?
    };
    ended.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}

impl<D: Driver> Worker<D> {
    /// Ends each second of the recording and measures event-loop lag, until cancelled. Notifies `stopped` when the
    /// phase's stop flag is set, and wakes sleeping tasks when the measured window changes or ends.
    async fn tick(&self, stopped: &Notify) {
        // The stop flag also ends the wait for a start time agreed between ranks.
        while !self.phase.stop.load(Ordering::Relaxed) && Instant::now() + TICK < self.start {
            self.timer.sleep_until(Instant::now() + TICK).await;
        }
        let mut due = if self.phase.stop.load(Ordering::Relaxed) { Instant::now() } else { self.start };
        self.timer.sleep_until(due).await;
        self.began.set(Instant::now().saturating_duration_since(self.start));
        let mut adjusted = (None, None);
        loop {
            self.timer.sleep_until(due).await;
            let now = Instant::now();
            due = self.recorder.borrow_mut().look(now, &self.waiting.borrow());
            if self.phase.stop.load(Ordering::Relaxed) {
                stopped.notify_one();
            }
            // Sleeping tasks compute their due times again when the window changes, and at its end.
            let window = (self.phase.measured_from.get().copied(), self.phase.ended.get().copied());
            if window != adjusted || window.1.is_some_and(|ended| now >= ended) {
                adjusted = window;
                self.over.notify_waiters();
            }
        }
    }

    /// Runs the part of stream number `index` that belongs to worker `thread` of this process. Ends the phase
    /// afterwards if this stream ends it.
    async fn stream(self: Rc<Self>, index: usize, thread: u64) {
        self.clone().serve_stream(index, thread).await;
        self.phase.part_ended(index);
        if self.phase.ended.get().is_some() {
            self.over.notify_waiters();
        }
    }

    /// Runs worker `thread`'s part of stream number `index`, from the phase's start to the stream's end.
    /// Requests in flight at the end get the plan's drain time.
    async fn serve_stream(self: Rc<Self>, index: usize, thread: u64) {
        let phase = &self.phase;
        let plan = &phase.plan.streams[index];
        let lasts = phase.plan.clock(index);
        let key = hash_name(&format!("{}/{}", phase.plan.phase, plan.name));
        let profile = &phase.profiles[index];
        // Use at most one thread per client, or per request or group in flight. The shares add up to the total.
        let parts = match plan.pacing {
            Pacing::Closed { .. } => profile.greatest() as u64,
            Pacing::Open { max_in_flight, .. } => max_in_flight,
            Pacing::Users { users, clients, .. } => users.min(clients),
            Pacing::Source { workers, .. } => workers,
        };
        let share =
            Stride::new(phase.plan.rank, phase.plan.ranks, thread, phase.plan.threads).among(parts / plan.group());
        self.set_ran_out(index, share.is_none());
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
            let (issued, batches, retry_budget) = (Cell::new(0), Cell::new(0), RetryBudget::default());
            let part = Rc::new(Stream {
                index,
                key,
                share,
                issued,
                count,
                balance,
                roams,
                turns,
                batches,
                retry_budget,
                lasts,
            });
            stream = Some(part.clone());
            match plan.pacing {
                Pacing::Closed { think_time, pacing, .. } => {
                    for client in share.numbers(parts) {
                        // Client number c is active while the level is above c.
                        let stretches = profile.at_least(client as f64 + 1.0);
                        clients.spawn_local(self.clone().closed(part.clone(), client, stretches, think_time, pacing));
                    }
                }
                Pacing::Open { arrivals, .. } => {
                    let due = Due::new(profile.clone(), arrivals, share, phase.plan.seed, key);
                    self.clone().open(part, due, share.count(parts), &mut clients).await;
                }
                Pacing::Users { users, think_time, pacing, over, .. } => {
                    let config = UserConfig { users, think_time, pacing, over };
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
        let stays = lasts.is_some() && !ends_itself && !clients.is_empty();
        let all = async {
            while clients.join_next().await.is_some() {}
            match &stream {
                // A faster worker of a closed stream has taken numbers between which this one has left gaps, unless
                // all were taken: keep its floor.
                Some(part) if part.roams || self.ends[index].get().ran_out => {
                    part.count.iter().for_each(|count| count.borrow().end(&phase.counters));
                }
                Some(_) => {}
                None => {
                    phase.stream_plans[index].uses().for_each(|counter| phase.counters[counter].end(thread as usize, 0))
                }
            }
            if stays {
                // Stay until the end of the stream even without more requests, as at a low rate.
                self.until_over(lasts, Duration::ZERO).await;
            }
        };
        // Requests in flight at the end get the drain time to finish.
        let give_up = self.until_over(lasts, phase.plan.drain);
        tokio::select! {
            () = all => {}
            () = give_up => {}
        }
    }

    /// Sets whether this worker has sent all of its requests of stream number `stream` (`ran_out`).
    fn set_ran_out(&self, stream: usize, ran_out: bool) {
        self.ends[stream].set(StreamEnd { ran_out, ..self.ends[stream].get() });
    }

    /// Adds client number `client` to this worker, without a request in flight; returns its seat.
    fn seat(&self, client: u64) -> ClientSeat {
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(None);
        ClientSeat { client, place: waiting.len() - 1 }
    }
}
