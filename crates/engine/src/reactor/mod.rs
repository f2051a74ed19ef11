//! Event loop of a worker: runs one future with its sockets and sleepers on the calling thread.
//!
//! A paced request costs four system calls: two waits, a write and a read. One `epoll_pwait2` waits for the sockets and
//! for the next sleeper, to the nanosecond. Wakers of the same thread are plain cells; a waker of another thread ends
//! the wait through an `eventfd`.
//!
//! Tokio's task types need no Tokio runtime: a `LocalSet` runs as the future of [`block_on`]. Tokio's timers and
//! blocking calls are served by a [`background`] thread.

mod background;
mod epoll;
mod on_thread;
pub mod overhead;
mod stream;
#[cfg(test)]
mod tests;
pub mod timer;
mod timestamps;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use tokio::task::coop::{RestoreOnPending, has_budget_remaining, poll_proceed};

use self::background::Background;
use self::epoll::Poller;
use self::on_thread::thread_number;
use self::stream::Readiness;
use self::timer::{SPIN, Timer};
use crate::util::cpu;

pub use self::stream::TcpStream;
pub use self::timestamps::Timestamping;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Reactor>>> = const { RefCell::new(None) };
}

/// The event loop of one thread.
pub struct Reactor {
    poller: Poller,
    timer: Timer,
    sockets: RefCell<Sockets>,
    /// Tasks that have yielded, to wake after the next look at the sockets.
    yielded: RefCell<Vec<Waker>>,
    /// The shortest look at the sockets while spinning.
    shortest: Cell<Duration>,
    /// Whether new connections get the kernel's timestamps.
    timestamps: Cell<bool>,
    root: Arc<Root>,
}

/// The waker of the reactor's future.
struct Root {
    /// Whether the future must be polled.
    woken: AtomicBool,
    thread: u64,
    event: OwnedFd,
}

impl Wake for Root {
    /// Requests a poll of the reactor's future. From another thread, also ends the reactor's wait.
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Requests a poll of the reactor's future. From another thread, also ends the reactor's wait.
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) && self.thread != thread_number() {
            // It fails only if the counter is full; then it is readable.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}

/// The registered sockets. A token is an index and the generation of its entry, so that an event of a closed socket
/// never reaches the next one.
#[derive(Default)]
struct Sockets {
    entries: Vec<(u32, Option<Rc<Readiness>>)>,
    free: Vec<u32>,
}

impl Sockets {
    /// Adds a socket; returns its token.
    fn add(&mut self, readiness: Rc<Readiness>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            (self.entries.len() - 1) as u32
        });
        let (generation, entry) = &mut self.entries[index as usize];
        *entry = Some(readiness);
        u64::from(*generation) << 32 | u64::from(index)
    }

    /// Returns the socket of a token; `None` if it was removed.
    fn get(&self, token: u64) -> Option<&Rc<Readiness>> {
        let (generation, entry) = self.entries.get(token as u32 as usize)?;
        entry.as_ref().filter(|_| u64::from(*generation) == token >> 32)
    }

    /// Removes a socket. Does nothing if the token belongs to another socket, as after a change of the reactor.
    fn remove(&mut self, token: u64, readiness: &Rc<Readiness>) {
        if self.get(token).is_some_and(|entry| Rc::ptr_eq(entry, readiness)) {
            let (generation, entry) = &mut self.entries[token as u32 as usize];
            // The largest index and generation together would be the token of no socket.
            *generation = generation.wrapping_add(1) & (u32::MAX >> 1);
            *entry = None;
            self.free.push(token as u32);
        }
    }
}

/// Runs `future` on the calling thread until it is ready, and returns its output. Fails if the process has run out of
/// file descriptors or threads. Panics if a reactor runs on this thread already. `spins`: whether to stay awake
/// shortly before a sleeper is due.
pub fn block_on<F: Future>(spins: bool, future: F) -> io::Result<F::Output> {
    run(Reactor::new(spins, Poller::new(true)?)?, future)
}

/// Runs `future` on `reactor` until it is ready, and returns its output. Fails if a thread cannot start or a wait
/// fails. Panics if a reactor runs on this thread already.
fn run<F: Future>(reactor: Reactor, future: F) -> io::Result<F::Output> {
    let background = Background::start()?;
    // Waits end up to the timer slack late: by default 50 us.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _tokio = background.handle().enter();
    let reactor = Rc::new(reactor);
    let _entered = Entered::new(reactor.clone());
    let waker = Waker::from(reactor.root.clone());
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if reactor.root.woken.swap(false, Ordering::AcqRel)
            && let Poll::Ready(output) = future.as_mut().poll(&mut cx)
        {
            return Ok(output);
        }
        reactor.turn()?;
    }
}

/// Returns whether a reactor runs on the calling thread.
pub fn is_running() -> bool {
    with_current(|_| ()).is_some()
}

/// Turns on the kernel's timestamps for new connections of this thread's reactor; does nothing without one.
pub fn timestamp_connections() {
    with_current(|reactor| reactor.timestamps.set(true));
}

/// Returns the timer of this thread's reactor, or a new one on the current Tokio runtime if there is none. `spins`:
/// whether the new one stays awake shortly before a sleeper is due. Fails if the process has run out of file
/// descriptors.
pub fn timer(spins: bool) -> io::Result<Timer> {
    with_current(|reactor| reactor.timer.clone()).map_or_else(|| Timer::new(spins), Ok)
}

/// Runs `task` on the calling thread, concurrently with the current task: in its `LocalSet` if a reactor runs,
/// otherwise on its Tokio runtime. Panics without either.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if is_running() {
        // Sockets belong to the thread of their reactor.
        tokio::task::spawn_local(task);
    } else {
        tokio::spawn(task);
    }
}

/// Takes a unit of the task's budget of socket operations. Without budget returns `Pending`, and the task continues
/// after the reactor's next check of the sockets: a socket that is never empty would keep the thread to itself.
fn poll_budget(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    let wait = |reactor: &Reactor| reactor.yielded.borrow_mut().push(cx.waker().clone());
    if !has_budget_remaining() && with_current(wait).is_some() {
        return Poll::Pending;
    }
    poll_proceed(cx)
}

/// Lets the other tasks of this thread run, and checks the sockets for events.
pub async fn yield_now() {
    if !is_running() {
        return tokio::task::yield_now().await;
    }
    let yielded = Cell::new(false);
    poll_fn(|cx| {
        if yielded.replace(true) {
            return Poll::Ready(());
        }
        with_current(|reactor| reactor.yielded.borrow_mut().push(cx.waker().clone()));
        Poll::Pending
    })
    .await;
}

/// Returns the result of `use_it` with the reactor of the calling thread; `None` without one.
fn with_current<T>(use_it: impl FnOnce(&Reactor) -> T) -> Option<T> {
    CURRENT.try_with(|current| current.borrow().as_deref().map(use_it)).ok().flatten()
}

/// Makes a reactor the current one until it is dropped.
struct Entered;

impl Entered {
    /// Makes `reactor` the current one of this thread. Panics if there is one already.
    fn new(reactor: Rc<Reactor>) -> Self {
        assert!(CURRENT.replace(Some(reactor)).is_none(), "one reactor per thread");
        Self
    }
}

impl Drop for Entered {
    /// Removes the thread's current reactor.
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

impl Reactor {
    /// Creates a reactor that waits with `poller`. Fails if the process has run out of file descriptors.
    /// `spins`: whether it stays awake shortly before a sleeper is due.
    fn new(spins: bool, poller: Poller) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        poller.add_wakeup(event.as_fd())?;
        let root = Arc::new(Root { woken: AtomicBool::new(true), thread: thread_number(), event });
        let (sockets, yielded) = (RefCell::default(), RefCell::default());
        let shortest = Cell::new(Duration::MAX);
        let (timer, timestamps) = (Timer::of_reactor(spins), Cell::new(false));
        Ok(Self { poller, timer, sockets, yielded, shortest, timestamps, root })
    }

    /// Returns the timer that all of its tasks share.
    fn timer(&self) -> &Timer {
        &self.timer
    }

    /// Registers a socket with the poller. Returns its token and its readiness. Fails if the kernel refuses it.
    fn register(&self, socket: BorrowedFd<'_>) -> io::Result<(u64, Rc<Readiness>)> {
        let readiness = Rc::<Readiness>::default();
        let mut sockets = self.sockets.borrow_mut();
        let token = sockets.add(readiness.clone());
        if let Err(error) = self.poller.add(socket, token) {
            sockets.remove(token, &readiness);
            return Err(error);
        }
        Ok((token, readiness))
    }

    /// Removes a socket that is being closed, so that events no longer reach it.
    fn forget(&self, token: u64, readiness: &Rc<Readiness>) {
        self.sockets.borrow_mut().remove(token, readiness);
    }

    /// Waits until an event arrives, a sleeper is due (or soon due, if the timer spins) or the future is woken, but not
    /// if tasks have yielded. Then wakes the tasks concerned and those that have yielded.
    fn turn(&self) -> io::Result<()> {
        if self.root.woken.load(Ordering::Acquire) || !self.yielded.borrow().is_empty() {
            self.look(Some(Duration::ZERO))?;
        } else {
            let (next, now) = (self.timer.next(), Instant::now());
            match next {
                Some(due) if self.timer.spins() && due <= now + SPIN => self.wait_awake(due, now)?,
                Some(due) if self.timer.spins() => drop(self.look(Some(due - now - SPIN))?),
                next => drop(self.look(next.map(|due| due.saturating_duration_since(now)))?),
            }
        }
        self.timer.wake_due(Instant::now());
        self.yielded.borrow_mut().drain(..).for_each(Waker::wake);
        Ok(())
    }

    /// Checks for events without sleeping, at least once, until there are some or `due` has passed. Counts the time
    /// from `now` to `due` as spinning, but at most twice the shortest check's time per check: in the rest, the thread
    /// did not run.
    fn wait_awake(&self, due: Instant, now: Instant) -> io::Result<()> {
        let (mut last, mut spun) = (now, Duration::ZERO);
        while self.look(Some(Duration::ZERO))? == 0 {
            let round = last.elapsed();
            self.shortest.set(self.shortest.get().min(round));
            if last < due {
                spun += round.min(2 * self.shortest.get());
            }
            last += round;
            if last >= due {
                break;
            }
        }
        cpu::count_spin(spun);
        Ok(())
    }

    /// Blocks until events arrive, at most for `timeout` (`None`: no limit), and wakes the tasks that wait for them.
    /// Returns the number of events.
    fn look(&self, timeout: Option<Duration>) -> io::Result<usize> {
        let sockets = self.sockets.borrow();
        self.poller.wait(timeout, |token, flags| {
            if let Some(readiness) = sockets.get(token) {
                readiness.report(flags);
            }
        })
    }
}
