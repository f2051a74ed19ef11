//! Timer with the precision of the kernel's high-resolution timers.
//!
//! Tokio's timer rounds up to a millisecond, which would delay every request. Here one queue per worker holds all its
//! sleepers. A reactor waits until the earliest is due, and then wakes all that are. On a Tokio runtime, which cannot
//! wait for a nanosecond, a `timerfd` is armed for the earliest.
//!
//! A spinning timer stays awake while a sleeper is due within [`SPIN`], so that answers are read at once, and counts
//! the time in [`crate::util::cpu`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::on_thread::OnThread;
use super::with_current;
use crate::util::cpu;

/// Time before a due sleeper from which a spinning timer stays awake.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// A worker's timer; each sleeper holds a clone. Without a reactor, [`Timer::drive`] must run on the same thread.
#[derive(Clone)]
pub struct Timer(Rc<Inner>);

struct Inner {
    /// The wakers of sleepers, by due time and number.
    sleepers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    /// The alarms that have not fired, by due time and number.
    alarms: RefCell<BTreeMap<(Instant, u64), Rc<AlarmState>>>,
    /// The number of the next sleeper or alarm.
    next: Cell<u64>,
    /// The last time for which sleepers were woken.
    now: Cell<Instant>,
    /// Whether the timer stays awake before a sleeper is due.
    spins: bool,
    /// `None` if a reactor waits for the sleepers.
    descriptor: Option<Descriptor>,
}

/// A timer descriptor, which wakes the sleepers on a Tokio runtime.
struct Descriptor {
    fd: AsyncFd<OwnedFd>,
    /// The time that the descriptor is armed for: a later sleeper needs no system call.
    armed: Cell<Option<Instant>>,
    /// Whether the timer is awake now, so that new sleepers need not arm the descriptor.
    awake: Cell<bool>,
    /// The shortest round of [`Timer::spin`], one without work.
    shortest: Cell<Duration>,
}

/// A sleeper; `key` is its place in the queue, `None` until it is queued. Dropping it removes it from the queue: some
/// sleeps would last until the end of a phase and are cancelled at each request.
struct Sleeper<'a> {
    timer: &'a Timer,
    key: Option<(Instant, u64)>,
}

impl Drop for Sleeper<'_> {
    /// Removes it unless it was woken.
    fn drop(&mut self) {
        if let Some(key) = self.key.filter(|(due, _)| *due > self.timer.0.now.get()) {
            let waker = self.timer.0.sleepers.borrow_mut().remove(&key);
            // Dropping a waker can drop a task with other sleepers.
            drop(waker);
        }
    }
}

#[derive(Default)]
struct AlarmState {
    fired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A due time that can be polled, and cancelled by dropping it. For deadlines that seldom come.
pub struct Alarm {
    key: (Instant, u64),
    state: OnThread<Rc<AlarmState>>,
}

impl Alarm {
    /// Sets an alarm at `due` on this thread's reactor; `None` if the thread has none.
    pub fn at(due: Instant) -> Option<Self> {
        with_current(|reactor| reactor.timer().set_alarm(due))
    }

    /// Returns the time at which it fires.
    pub fn due(&self) -> Instant {
        self.key.0
    }

    /// Returns `Ready` once it has fired; until then keeps the task's waker. Panics on another thread.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.state.get();
        if state.fired.get() {
            return Poll::Ready(());
        }
        let mut waker = state.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Alarm {
    /// Cancels the alarm. Does nothing on another thread.
    fn drop(&mut self) {
        if self.state.is_here() && !self.state.get().fired.get() {
            with_current(|reactor| {
                let mut alarms = reactor.timer().0.alarms.borrow_mut();
                // An earlier reactor of this thread may have set it.
                if alarms.get(&self.key).is_some_and(|state| Rc::ptr_eq(state, self.state.get())) {
                    alarms.remove(&self.key);
                }
            });
        }
    }
}

impl Timer {
    /// Creates a timer on the current Tokio runtime. With `spins` it stays awake before a sleeper is due. Fails if the
    /// process has run out of file descriptors.
    pub fn new(spins: bool) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: `OwnedFd` names the same open file until it is dropped.
        let fd = unsafe { AsyncFd::register(fd) }?;
        let (awake, shortest) = (Cell::new(false), Cell::new(Duration::MAX));
        Ok(Self::with(spins, Some(Descriptor { fd, armed: Cell::new(None), awake, shortest })))
    }

    /// Creates the timer of a reactor. `spins`: it stays awake shortly before a sleeper is due.
    pub(super) fn of_reactor(spins: bool) -> Self {
        Self::with(spins, None)
    }

    /// Creates a timer without sleepers. `spins`: it stays awake shortly before a sleeper is due. `descriptor`: `None`
    /// for the timer of a reactor.
    fn with(spins: bool, descriptor: Option<Descriptor>) -> Self {
        let (sleepers, alarms) = (RefCell::default(), RefCell::default());
        let (next, now) = (Cell::new(0), Cell::new(Instant::now()));
        Self(Rc::new(Inner { sleepers, alarms, next, now, spins, descriptor }))
    }

    /// Returns whether it stays awake shortly before a sleeper is due.
    pub(super) fn spins(&self) -> bool {
        self.0.spins
    }

    /// Returns the key of a new sleeper or alarm: its due time and a number of its own.
    fn key(&self, due: Instant) -> (Instant, u64) {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        (due, number)
    }

    /// Sets an alarm at `due`.
    fn set_alarm(&self, due: Instant) -> Alarm {
        let (key, state) = (self.key(due), Rc::<AlarmState>::default());
        self.0.alarms.borrow_mut().insert(key, state.clone());
        Alarm { key, state: OnThread::new(state) }
    }

    /// Waits until `due`; returns at once if it has passed.
    pub async fn sleep_until(&self, due: Instant) {
        let mut sleeper = Sleeper { timer: self, key: None };
        poll_fn(|cx| {
            if due <= self.0.now.get() {
                return Poll::Ready(());
            }
            // If another event polled the task, it is queued already, and its old waker still wakes it.
            if sleeper.key.is_some() {
                return Poll::Pending;
            }
            let now = Instant::now();
            if due <= now {
                return Poll::Ready(());
            }
            let key = self.key(due);
            self.0.sleepers.borrow_mut().insert(key, cx.waker().clone());
            sleeper.key = Some(key);
            if let Some(descriptor) = &self.0.descriptor {
                descriptor.arm(due, now, self.0.spins);
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes sleepers when they are due, until the runtime ends. Returns only on an error; then no sleeper is
    /// woken any more. With a reactor, which does this itself, it never returns.
    pub async fn drive(&self) -> io::Error {
        let Some(descriptor) = &self.0.descriptor else { return pending().await };
        loop {
            let mut ready = match descriptor.fd.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            // The descriptor is not read: arming it again resets its state, and Tokio reports each expiry
            // (edge-triggered, epoll(7)).
            ready.clear_ready();
            descriptor.armed.set(None);
            if self.0.spins {
                self.spin(descriptor).await;
            } else {
                self.wake_due(Instant::now());
                // A woken sleeper usually sleeps again and then arms the timer itself.
                let mut yielded = false;
                poll_fn(|cx| {
                    if yielded {
                        return Poll::Ready(());
                    }
                    yielded = true;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
            if let Some(next) = self.next() {
                descriptor.arm(next, Instant::now(), self.0.spins);
            }
        }
    }

    /// Wakes sleepers when they are due, without sleeping, until none is due within [`SPIN`].
    async fn spin(&self, descriptor: &Descriptor) {
        descriptor.awake.set(true);
        let mut now = Instant::now();
        loop {
            self.wake_due(now);
            // Runs the tasks that are ready and polls the sockets.
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut now, Instant::now());
            // A round without work takes about the shortest time; the rest of a longer one is work.
            let shortest = descriptor.shortest.get().min(now - before);
            descriptor.shortest.set(shortest);
            cpu::count_spin((now - before).min(2 * shortest));
            if self.next().is_none_or(|next| next > now + SPIN) {
                break;
            }
        }
        descriptor.awake.set(false);
    }

    /// Returns the earliest due time of a sleeper or alarm; `None` if there is none.
    pub(super) fn next(&self) -> Option<Instant> {
        let sleeper = self.0.sleepers.borrow().first_key_value().map(|((due, _), _)| *due);
        let alarm = self.0.alarms.borrow().first_key_value().map(|((due, _), _)| *due);
        match (sleeper, alarm) {
            (Some(sleeper), Some(alarm)) => Some(sleeper.min(alarm)),
            (sleeper, alarm) => sleeper.or(alarm),
        }
    }

    /// Wakes the sleepers and fires the alarms that are due at `now`, and removes them.
    pub(super) fn wake_due(&self, now: Instant) {
        self.0.now.set(now);
        while let Some(waker) = pop_due(&self.0.sleepers, now) {
            waker.wake();
        }
        while let Some(state) = pop_due(&self.0.alarms, now) {
            state.fired.set(true);
            state.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// Removes and returns the first entry of a queue that is due at `now`; `None` if there is none.
fn pop_due<T>(queue: &RefCell<BTreeMap<(Instant, u64), T>>, now: Instant) -> Option<T> {
    let mut queue = queue.borrow_mut();
    queue.first_entry().filter(|first| first.key().0 <= now).map(OccupiedEntry::remove)
}

impl Descriptor {
    /// Arms the descriptor for a sleeper due at `due`, earlier by [`SPIN`] if the timer `spins`. Does nothing if the
    /// sleeper is woken anyway: the timer is awake or armed early enough. `now`: the current time.
    fn arm(&self, due: Instant, now: Instant, spins: bool) {
        if self.awake.get() || self.armed.get().is_some_and(|armed| armed <= due) {
            return;
        }
        self.armed.set(Some(due));
        let early = if spins { SPIN } else { Duration::ZERO };
        // Zero would disarm the timer: use 1 ns for a time that has passed.
        let left = due.saturating_duration_since(now + early).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &setting).expect("an open timer takes a valid time");
    }
}
