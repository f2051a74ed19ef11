//! Waits for sockets, for a time and for other threads, with `epoll`.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Largest number of events that one wait reports.
const EVENTS: usize = 256;
/// The token of descriptors that only end the wait.
const NOBODY: u64 = u64::MAX;

/// An epoll instance.
pub struct Poller {
    epoll: OwnedFd,
    events: RefCell<Vec<epoll::Event>>,
    /// Divisor of the kernel's timer slack; see [`less_slack`].
    slack: u32,
    /// Ends waits of kernels before 5.11 and of sandboxes, which have no `epoll_pwait2`; `None` with that call.
    timer: Option<Timerfd>,
}

/// A timer descriptor, and the time for which it is armed.
struct Timerfd {
    fd: OwnedFd,
    armed: Cell<Option<Instant>>,
}

impl Poller {
    /// Creates an instance. With `precise` it uses `epoll_pwait2` if the kernel has it; otherwise a timer descriptor
    /// ends its waits. Fails if the process has run out of file descriptors.
    pub fn new(precise: bool) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let events = RefCell::new(Vec::with_capacity(EVENTS));
        let nice = rustix::process::getpriority_process(None).unwrap_or(0);
        let mut poller = Self { epoll, events, slack: if nice > 0 { 200 } else { 1000 }, timer: None };
        if !precise || poller.sleep(Some(Duration::ZERO)).is_err() {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            poller.add_wakeup(fd.as_fd())?;
            poller.timer = Some(Timerfd { fd, armed: Cell::new(None) });
        }
        Ok(poller)
    }

    /// Registers a socket: [`Self::wait`] reports each change of its state with `token`. Closing the descriptor ends
    /// this.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }

    /// Makes each wait end when `fd` becomes readable, without a report. It need not be read.
    pub fn add_wakeup(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(NOBODY), EventFlags::IN | EventFlags::ET)?)
    }

    /// Blocks until events arrive, at most for `timeout` (`None`: no limit).
    /// Passes the token and flags of each socket's event to `report`. Returns the number of events, wake-ups included;
    /// 0 after a time-out or a signal.
    pub fn wait(&self, timeout: Option<Duration>, mut report: impl FnMut(u64, EventFlags)) -> io::Result<usize> {
        self.sleep(timeout)?;
        let events = self.events.borrow();
        for event in events.iter() {
            match event.data.u64() {
                NOBODY => {
                    if let Some(timer) = &self.timer {
                        timer.armed.set(None);
                    }
                }
                token => report(token, event.flags),
            }
        }
        Ok(events.len())
    }

    /// Blocks until events arrive, at most for `timeout`, and stores them. A signal ends the wait without events.
    fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut events = self.events.borrow_mut();
        events.clear();
        let waited = match &self.timer {
            None => {
                let timeout = timeout.map(|left| timespec(less_slack(left, self.slack)));
                epoll_pwait2(&self.epoll, &mut events, timeout.as_ref())
            }
            Some(timer) => {
                // `epoll_wait` counts milliseconds: it only polls, or waits for the timer too.
                let zero = timeout.is_some_and(|left| left.is_zero()).then(|| timespec(Duration::ZERO));
                if let (None, Some(left)) = (&zero, timeout) {
                    timer.arm(left)?;
                }
                epoll::wait(&self.epoll, spare_capacity(&mut events), zero.as_ref()).map(drop)
            }
        };
        match waited {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Timerfd {
    /// Arms the timer, so that waits end after `left` or earlier.
    fn arm(&self, left: Duration) -> io::Result<()> {
        let due = Instant::now() + left;
        if self.armed.get().is_none_or(|armed| due < armed) {
            let setting = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(left) };
            timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &setting)?;
            self.armed.set(Some(due));
        }
        Ok(())
    }
}

/// Blocks until events arrive, at most for `timeout` (`None`: no limit); appends them to `events`, up to its capacity.
/// Fails with `EINTR` after a signal, and if the kernel lacks this call.
fn epoll_pwait2(epoll: &OwnedFd, events: &mut Vec<epoll::Event>, timeout: Option<&Timespec>) -> Result<(), Errno> {
    let space = events.spare_capacity_mut();
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: The kernel writes at most as many events as there is space for. rustix defines its event and its time as
    // the kernel does. No signal mask is given.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            space.as_mut_ptr(),
            space.len() as libc::c_int,
            timeout,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    let count =
        usize::try_from(count).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))?;
    // SAFETY: The kernel has written this number of events after the first ones.
    unsafe { events.set_len(events.len() + count) };
    Ok(())
}

/// Returns the timeout to pass for a wait of `left`. The kernel lengthens a timeout by one part in `slack`, so that
/// neighbouring timers share an interrupt: 1000, or 200 in processes of low priority (`__estimate_accuracy` in
/// fs/select.c).
fn less_slack(left: Duration, slack: u32) -> Duration {
    left - left / (slack + 1)
}

/// Converts a duration to the kernel's seconds and nanoseconds.
fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
