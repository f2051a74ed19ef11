//! Timer with the precision of the kernel's high-resolution timers.
//!
//! Tokio's timer rounds up to a millisecond, which would delay every request. Here one `timerfd` per worker
//! serves all its sleepers. It is armed for the earliest; when it expires, all due sleepers are woken. When
//! each request needs a wake-up, system calls are most of a request's cost; there are two, one to wait and
//! one to arm.
//!
//! A spinning timer stays awake while a sleeper is due within [`SPIN`]. It polls the runtime meanwhile, so that
//! answers are read at once, and counts the time in [`crate::util::cpu`].

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::util::cpu;

/// Time before a due sleeper from which a spinning timer stays awake.
const SPIN: Duration = Duration::from_micros(50);

/// A worker's timer; each sleeper holds a clone. [`Timer::drive`] must run on the same thread.
#[derive(Clone)]
pub struct Timer(Rc<Inner>);

struct Inner {
    fd: AsyncFd<OwnedFd>,
    sleepers: RefCell<BinaryHeap<Reverse<Sleeper>>>,
    /// The time that the descriptor is armed for: a later sleeper needs no system call.
    armed: Cell<Option<Instant>>,
    /// The last time that [`Timer::drive`] read, for the sleepers that it woke.
    now: Cell<Instant>,
    /// Whether the timer stays awake before a sleeper is due.
    spins: bool,
    /// Whether it is awake now, so that new sleepers need not arm the descriptor.
    awake: Cell<bool>,
    /// The shortest round of [`Timer::spin`], one without work.
    shortest: Cell<Duration>,
}

struct Sleeper {
    due: Instant,
    waker: Waker,
}

impl PartialEq for Sleeper {
    /// Compares by due time.
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}
impl Eq for Sleeper {}
impl PartialOrd for Sleeper {
    /// Compares by due time.
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Sleeper {
    /// Compares by due time.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

impl Timer {
    /// Creates a timer on the current runtime. With `spins` it stays awake before a sleeper is due. Fails if the
    /// process has run out of file descriptors.
    pub fn new(spins: bool) -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: `OwnedFd` names the same open file until it is dropped.
        let fd = unsafe { AsyncFd::register(fd) }?;
        Ok(Self(Rc::new(Inner {
            fd,
            sleepers: RefCell::default(),
            armed: Cell::new(None),
            now: Cell::new(Instant::now()),
            spins,
            awake: Cell::new(false),
            shortest: Cell::new(Duration::MAX),
        })))
    }

    /// Waits until `due`; returns at once if it has passed.
    pub async fn sleep_until(&self, due: Instant) {
        let mut waiting = false;
        poll_fn(|cx| {
            if due <= self.0.now.get() {
                return Poll::Ready(());
            }
            // If another event polled the task, it is queued already, and its old waker still wakes it.
            if waiting {
                return Poll::Pending;
            }
            let now = Instant::now();
            if due <= now {
                return Poll::Ready(());
            }
            waiting = true;
            self.0.sleepers.borrow_mut().push(Reverse(Sleeper { due, waker: cx.waker().clone() }));
            self.arm(due, now);
            Poll::Pending
        })
        .await;
    }

    /// Wakes sleepers when they are due, until the runtime ends. Returns only on an error; then no sleeper is
    /// woken any more.
    pub async fn drive(&self) -> io::Error {
        loop {
            let mut ready = match self.0.fd.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            // The descriptor is not read: arming it again resets its state, and Tokio reports each expiry
            // (edge-triggered, epoll(7)).
            ready.clear_ready();
            self.0.armed.set(None);
            if self.0.spins {
                self.spin().await;
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
            if let Some(next) = self.next().filter(|next| !self.is_armed_for(*next)) {
                self.arm(next, Instant::now());
            }
        }
    }

    /// Wakes sleepers when they are due, without sleeping, until none is due within [`SPIN`].
    async fn spin(&self) {
        self.0.awake.set(true);
        let mut now = Instant::now();
        loop {
            self.wake_due(now);
            // Runs the tasks that are ready and polls the sockets.
            tokio::task::yield_now().await;
            let before = std::mem::replace(&mut now, Instant::now());
            // A round without work takes about the shortest time; the rest of a longer one is work.
            let shortest = self.0.shortest.get().min(now - before);
            self.0.shortest.set(shortest);
            cpu::count_spin((now - before).min(2 * shortest));
            if self.next().is_none_or(|next| next > now + SPIN) {
                break;
            }
        }
        self.0.awake.set(false);
    }

    /// Returns the earliest due time of a sleeper, if any sleeps.
    fn next(&self) -> Option<Instant> {
        self.0.sleepers.borrow().peek().map(|Reverse(first)| first.due)
    }

    /// Wakes the sleepers that are due at `now`.
    fn wake_due(&self, now: Instant) {
        self.0.now.set(now);
        let mut sleepers = self.0.sleepers.borrow_mut();
        while sleepers.peek().is_some_and(|Reverse(first)| first.due <= now) {
            if let Some(Reverse(first)) = sleepers.pop() {
                first.waker.wake();
            }
        }
    }

    /// Returns whether a sleeper due at `due` wakes without another system call: the timer is awake or armed early
    /// enough.
    fn is_armed_for(&self, due: Instant) -> bool {
        self.0.awake.get() || self.0.armed.get().is_some_and(|armed| armed <= due)
    }

    /// Arms the descriptor for a sleeper due at `due`, unless it is woken anyway. `now`: the current time.
    fn arm(&self, due: Instant, now: Instant) {
        if self.is_armed_for(due) {
            return;
        }
        self.0.armed.set(Some(due));
        let early = if self.0.spins { SPIN } else { Duration::ZERO };
        // Zero would disarm the timer: use 1 ns for a time that has passed.
        let left = due.saturating_duration_since(now + early).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.0.fd, TimerfdTimerFlags::empty(), &setting).expect("an open timer takes a valid time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order in which sleepers of four instants wake.
    fn woken(spins: bool) -> Vec<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let woken = Rc::new(RefCell::new(Vec::new()));
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let timer = Timer::new(spins).unwrap();
            let driver = timer.clone();
            tokio::task::spawn_local(async move { driver.drive().await });
            let start = Instant::now();
            let tasks: Vec<_> = [30u64, 10, 20, 0]
                .into_iter()
                .map(|ms| {
                    let (timer, woken) = (timer.clone(), woken.clone());
                    tokio::task::spawn_local(async move {
                        let due = start + Duration::from_millis(ms);
                        timer.sleep_until(due).await;
                        assert!(Instant::now() >= due);
                        woken.borrow_mut().push(ms);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        woken.take()
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_instants_and_never_early() {
        for spins in [false, true] {
            assert_eq!(woken(spins), [0, 10, 20, 30], "spins: {spins}");
        }
    }

    #[test]
    fn only_a_spinning_timer_counts_time_awake() {
        for spins in [false, true] {
            let before = cpu::thread_spun();
            woken(spins);
            let spun = cpu::thread_spun() - before;
            assert_eq!(spun > 0.0, spins, "{spun} s");
        }
    }
}
