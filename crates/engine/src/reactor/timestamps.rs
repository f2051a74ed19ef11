//! The kernel's timestamps of a TCP connection (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst).
//!
//! The kernel stamps a segment in software when it passes it to the network device, and when it receives one from it. A
//! read returns the stamp of the last segment read. The stamp of a write comes through the socket's error queue, with
//! the offset of the write's last byte in the stream.
//!
//! Stamps are times of the wall clock. A pair of clock readings per exchange relates them to [`Instant`]s.

use std::cell::Cell;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::overhead::Overhead;

/// Software stamps of both directions, with the offsets of the writes and without copies of their bytes.
const FLAGS: libc::c_uint = libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// `SCM_TSTAMP_SND` in include/uapi/linux/errqueue.h: the stamp is of passing the segment to the device.
const SENT: u32 = 0;
/// Bytes of `struct sock_extended_err`.
const REPORT: usize = 16;
/// Largest distance of two clock readings between which the wall clock is read, ns.
const CLOSE: i64 = 10_000;

/// Words for control messages: the kernel sends two, of 64 and of up to 72 bytes.
type Control = [usize; 32];

/// The stamps of one connection.
#[derive(Default)]
pub struct Timestamps {
    /// Bytes written so far. The kernel counts them modulo 2^32, too.
    written: Cell<u32>,
    /// The first write of the current request.
    first: Cell<Option<FirstWrite>>,
    /// The kernel's stamp of the last segment of the last read, ns of the wall clock.
    received: Cell<Option<u64>>,
}

/// The first write of a request.
#[derive(Clone, Copy)]
struct FirstWrite {
    /// The offset of its last byte in the stream.
    last: u32,
    /// When the call returned.
    returned: Instant,
    /// The kernel's stamp, ns of the wall clock.
    sent: Option<u64>,
}

/// Turns stamps on for a connected socket that has written nothing. Fails if the kernel does not support them.
pub fn turn_on(socket: BorrowedFd<'_>) -> io::Result<()> {
    // The kernel counts offsets from the first unacknowledged byte, here the first byte.
    let len = size_of::<libc::c_uint>() as libc::socklen_t;
    // SAFETY: The option's value is an integer of this length, which outlives the call.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, ptr::from_ref(&FLAGS).cast(), len)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A connection with stamps. The kernel stamps received segments only while there is any.
#[derive(Debug)]
pub struct Timestamping {
    _stream: TcpStream,
}

impl Timestamping {
    /// Has the kernel stamp received segments until the returned value is dropped. Blocks until it does, at most about
    /// a second; fails after that, or if it does not support stamps.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let mut peer = TcpStream::connect(listener.local_addr()?)?;
        let (stream, _) = listener.accept()?;
        turn_on(stream.as_fd())?;
        let timestamps = Timestamps::default();
        for _ in 0..1000 {
            peer.write_all(&[0])?;
            while let Err(error) = timestamps.read(stream.as_fd(), &mut [MaybeUninit::uninit()]) {
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            if timestamps.received.get().is_some() {
                return Ok(Self { _stream: stream });
            }
            // The kernel begins in the background.
            thread::sleep(Duration::from_millis(1));
        }
        Err(io::Error::other("no timestamp of received bytes within a second"))
    }
}

impl Timestamps {
    /// Starts a request: forgets the stamps of the previous one.
    pub fn begin(&self) {
        self.first.set(None);
        self.received.set(None);
    }

    /// Counts `count` bytes that the socket has accepted, and remembers the first write of a request. Further writes
    /// of a request empty the error queue, whose entries take memory from the receive buffer.
    pub fn wrote(&self, socket: BorrowedFd<'_>, count: usize) {
        let written = self.written.get().wrapping_add(count as u32);
        self.written.set(written);
        if count > 0 && self.first.get().is_none() {
            self.first.set(Some(FirstWrite { last: written.wrapping_sub(1), returned: Instant::now(), sent: None }));
        } else {
            self.take_reports(socket);
        }
    }

    /// Reads available bytes into `space`, and keeps the stamp of the last segment. Returns how many bytes it has
    /// initialised, 0 at the end of the stream. Fails with `WouldBlock` if none are available.
    pub fn read(&self, socket: BorrowedFd<'_>, space: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        let mut control = Control::default();
        let (count, filled) = receive(socket, space, &mut control, 0)?;
        // The end of the stream has no stamp: an answer that it completes stays without one.
        let messages = Messages(bytes(&control, if count > 0 { filled } else { 0 }));
        self.received.set(messages.filter_map(|message| message.stamp()).last());
        Ok(count)
    }

    /// Reads the error queue until it is empty. Keeps the stamp of the request's first write.
    fn take_reports(&self, socket: BorrowedFd<'_>) {
        let mut control = Control::default();
        while let Ok((_, filled)) = receive(socket, &mut [], &mut control, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            let (mut stamp, mut last) = (None, None);
            for message in Messages(bytes(&control, filled)) {
                stamp = stamp.or_else(|| message.stamp());
                last = last.or_else(|| message.sent_byte());
            }
            if let (Some(stamp), Some(last), Some(first)) = (stamp, last, self.first.get())
                && last == first.last
            {
                // A retransmission has the same offset and a later stamp.
                let sent = Some(first.sent.map_or(stamp, |sent| sent.min(stamp)));
                self.first.set(Some(FirstWrite { sent, ..first }));
            }
        }
    }

    /// Returns the overhead of the request that was `sent` and `done` at these times; unknown without stamps. Call it
    /// once the answer is read. Empties the socket's error queue.
    pub fn overhead(&self, socket: BorrowedFd<'_>, sent: Instant, done: Instant) -> Overhead {
        self.take_reports(socket);
        let (Some(first), Some(received), Some(clocks)) = (self.first.get(), self.received.get(), Clocks::read())
        else {
            return Overhead::default();
        };
        clocks.overhead((sent, done), first.sent.map(|stamp| (stamp, first.returned)), received)
    }
}

/// The two clocks at one time.
struct Clocks {
    at: Instant,
    /// Wall clock, ns since 1970.
    wall: u64,
}

impl Clocks {
    /// Reads both clocks. `None` if the thread was interrupted between the readings three times.
    fn read() -> Option<Self> {
        for _ in 0..3 {
            let before = Instant::now();
            let wall = SystemTime::now();
            let gap = before.elapsed();
            if signed(gap) < CLOSE {
                let wall = wall.duration_since(UNIX_EPOCH).ok()?;
                return Some(Self { at: before + gap / 2, wall: u64::try_from(wall.as_nanos()).ok()? });
            }
        }
        None
    }

    /// Returns the overhead of an exchange. `first`: the kernel's stamp of its first write, and when that call
    /// returned. `received`: the kernel's stamp of the end of its answer. Stamps are ns of the wall clock. The overhead
    /// is unknown if the stamps are not between `sent` and `done`, as after a step of the wall clock.
    fn overhead(&self, (sent, done): (Instant, Instant), first: Option<(u64, Instant)>, received: u64) -> Overhead {
        // Nanoseconds after `sent`.
        let since =
            |at: Instant| signed(at.saturating_duration_since(sent)) - signed(sent.saturating_duration_since(at));
        let stamped =
            |stamp: u64| since(self.at).checked_add(i64::try_from(i128::from(stamp) - i128::from(self.wall)).ok()?);
        let (Some(received), done) = (stamped(received), since(done)) else { return Overhead::default() };
        let send = match first.map(|(stamp, returned)| (stamped(stamp), since(returned))) {
            None => None,
            // The kernel may send the last byte later, for example once the server has read others. The generator's part
            // ends with its call.
            Some((Some(stamp), returned)) => Some(stamp.min(returned)),
            Some((None, _)) => return Overhead::default(),
        };
        let earliest = send.unwrap_or(0);
        if earliest < -CLOSE || received < earliest - CLOSE || done < received - CLOSE {
            return Overhead::default();
        }
        let duration = |time: i64| Duration::from_nanos(time.max(0) as u64);
        Overhead::new(send.map(duration), duration(done - received))
    }
}

/// Converts a duration to ns; `i64::MAX` if it is too long.
fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// Receives into `space` and `control` by one `recvmsg`. Returns the number of bytes of each. `flags`: flags of the
/// call. Fails like `recvmsg`, also if no bytes are available on a non-blocking socket.
fn receive(
    socket: BorrowedFd<'_>,
    space: &mut [MaybeUninit<u8>],
    control: &mut Control,
    flags: libc::c_int,
) -> io::Result<(usize, usize)> {
    let mut part = libc::iovec { iov_base: space.as_mut_ptr().cast(), iov_len: space.len() };
    // SAFETY: All fields of the structure may be zero.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>() as _;
    // SAFETY: The kernel writes at most these lengths to both buffers, and only initialised bytes. They outlive the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok((count, (header.msg_controllen as usize).min(size_of::<Control>())))
}

/// Returns the first `filled` bytes of a buffer of control messages.
fn bytes(control: &Control, filled: usize) -> &[u8] {
    // SAFETY: Integers are valid as bytes, and the length is at most that of the buffer.
    unsafe { std::slice::from_raw_parts(control.as_ptr().cast(), filled.min(size_of::<Control>())) }
}

/// The control messages in a buffer, as the kernel writes `struct cmsghdr`. They end at the first truncated one.
struct Messages<'a>(&'a [u8]);

/// A control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message<'a> {
    level: i32,
    kind: i32,
    content: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    /// Returns the next complete message; `None` at the end or before a truncated one.
    fn next(&mut self) -> Option<Message<'a>> {
        const WORD: usize = size_of::<usize>();
        let len = usize::from_ne_bytes(*self.0.first_chunk()?);
        let level = i32::from_ne_bytes(*self.0.get(WORD..)?.first_chunk()?);
        let kind = i32::from_ne_bytes(*self.0.get(WORD + 4..)?.first_chunk()?);
        let content = self.0.get(WORD + 8..len)?;
        self.0 = self.0.get(len.next_multiple_of(WORD)..).unwrap_or_default();
        Some(Message { level, kind, content })
    }
}

impl Message<'_> {
    /// Returns its software stamp, ns of the wall clock; `None` if it is another message, or has none.
    fn stamp(&self) -> Option<u64> {
        const WORD: usize = size_of::<libc::c_long>();
        if (self.level, self.kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
            return None;
        }
        // The first of three times: seconds and nanoseconds.
        let word = |place: usize| {
            self.content.get(place * WORD..)?.first_chunk().map(|bytes| libc::c_long::from_ne_bytes(*bytes))
        };
        let seconds = u64::try_from(word(0)?).ok()?;
        let nanoseconds = u64::try_from(word(1)?).ok().filter(|nanoseconds| *nanoseconds < 1_000_000_000)?;
        let stamp = seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
        (stamp > 0).then_some(stamp)
    }

    /// Returns the offset of the byte whose sending it reports; `None` if it reports something else.
    fn sent_byte(&self) -> Option<u32> {
        let errors = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
        let report: &[u8; REPORT] = self.content.first_chunk().filter(|_| errors.contains(&(self.level, self.kind)))?;
        let word = |place: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| report[place + byte]));
        let (number, origin, info, data) = (word(0), report[4], word(8), word(12));
        let of_sending = (number, origin, info) == (libc::ENOMSG as u32, libc::SO_EE_ORIGIN_TIMESTAMPING, SENT);
        of_sending.then_some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a control message to `buffer`, as the kernel writes it. `claimed`: its length, if it is a false one.
    fn append(buffer: &mut Vec<u8>, (level, kind): (i32, i32), content: &[u8], claimed: Option<usize>) {
        let header = size_of::<usize>() + 8;
        buffer.extend(claimed.unwrap_or(header + content.len()).to_ne_bytes());
        buffer.extend(level.to_ne_bytes());
        buffer.extend(kind.to_ne_bytes());
        buffer.extend(content);
        buffer.resize(buffer.len().next_multiple_of(size_of::<usize>()), 0);
    }

    /// Returns the content of a message with a software stamp.
    fn times(seconds: libc::c_long, nanoseconds: libc::c_long) -> Vec<u8> {
        [seconds, nanoseconds, 0, 0, 0, 0].into_iter().flat_map(libc::c_long::to_ne_bytes).collect()
    }

    /// Returns the content of a report about the byte at `data`, with the address that follows it.
    fn report(number: i32, origin: u8, info: u32, data: u32) -> Vec<u8> {
        let mut content = number.to_ne_bytes().to_vec();
        content.extend([origin, 0, 0, 0]);
        content.extend([info, data].into_iter().flat_map(u32::to_ne_bytes));
        content.resize(REPORT + 16, 0);
        content
    }

    const STAMP: (i32, i32) = (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING);
    const ERROR: (i32, i32) = (libc::SOL_IP, libc::IP_RECVERR);

    /// Returns the stamps and sent bytes of all messages.
    fn read(buffer: &[u8]) -> (Vec<u64>, Vec<u32>) {
        let stamps = Messages(buffer).filter_map(|message| message.stamp()).collect();
        (stamps, Messages(buffer).filter_map(|message| message.sent_byte()).collect())
    }

    #[test]
    fn control_messages_of_the_kernel_are_read() {
        let mut buffer = Vec::new();
        append(&mut buffer, (libc::SOL_SOCKET, libc::SCM_RIGHTS), &[1, 2, 3], None);
        append(&mut buffer, STAMP, &times(1_700_000_000, 123_456_789), None);
        append(&mut buffer, ERROR, &report(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, SENT, 4_294_967_295), None);
        assert_eq!(read(&buffer), (vec![1_700_000_000_123_456_789], vec![u32::MAX]));
        let six = (libc::SOL_IPV6, libc::IPV6_RECVERR);
        buffer.clear();
        append(&mut buffer, six, &report(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, SENT, 7), None);
        assert_eq!(read(&buffer), (vec![], vec![7]));
    }

    #[test]
    fn a_message_without_a_stamp_or_about_something_else_has_none() {
        let mut buffer = Vec::new();
        let largest = libc::c_long::MAX;
        for (seconds, nanoseconds) in [(0, 0), (-1, 5), (5, -1), (5, 1_000_000_000), (largest, 5), (largest, largest)] {
            append(&mut buffer, STAMP, &times(seconds, nanoseconds), None);
        }
        append(&mut buffer, (libc::SOL_TCP, libc::SCM_TIMESTAMPING), &times(5, 5), None);
        let stamping = libc::SO_EE_ORIGIN_TIMESTAMPING;
        for (number, origin, info) in
            [(libc::EIO, stamping, SENT), (libc::ENOMSG, 2, SENT), (libc::ENOMSG, stamping, 1)]
        {
            append(&mut buffer, ERROR, &report(number, origin, info, 7), None);
        }
        append(&mut buffer, (libc::SOL_SOCKET, libc::IP_RECVERR), &report(libc::ENOMSG, stamping, SENT, 7), None);
        assert_eq!(Messages(&buffer).count(), 11);
        assert_eq!(read(&buffer), (vec![], vec![]));
    }

    #[test]
    fn hostile_and_truncated_messages_end_the_list() {
        let mut valid = Vec::new();
        append(&mut valid, STAMP, &times(5, 6), None);
        for claimed in [0, 1, 15, 65, 1000, usize::MAX, usize::MAX - 7] {
            let mut buffer = valid.clone();
            append(&mut buffer, STAMP, &times(7, 8), Some(claimed));
            assert_eq!(read(&buffer).0, [5_000_000_006], "{claimed}");
        }
        // An empty message and one with too few bytes of content.
        for claimed in [16, 17, 31] {
            let mut buffer = Vec::new();
            append(&mut buffer, STAMP, &times(7, 8), Some(claimed));
            assert_eq!(Messages(&buffer).next().map(|message| message.stamp()), Some(None), "{claimed}");
        }
        append(&mut valid, ERROR, &report(libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, SENT, 9), None);
        for len in 0..valid.len() {
            let (stamps, sent) = read(&valid[..len]);
            assert_eq!(stamps.len(), usize::from(len >= 64), "{len}");
            assert_eq!(sent.len(), 0, "{len}");
        }
    }

    #[test]
    fn the_overhead_excludes_the_time_between_the_stamps() {
        let us = Duration::from_micros;
        let sent = Instant::now();
        let done = sent + us(500);
        let clocks = Clocks { at: sent + us(600), wall: 1_000_600_000 };
        // Stamps in µs after `sent`.
        let stamp = |after: u64| 1_000_000_000 + after * 1000;
        let overhead = |first: Option<(u64, u64)>, received| {
            let first = first.map(|(at, returned)| (stamp(at), sent + us(returned)));
            clocks.overhead((sent, done), first, stamp(received))
        };
        assert_eq!(overhead(Some((20, 30)), 460), Overhead::new(Some(us(20)), us(40)));
        assert_eq!(overhead(Some((200, 30)), 460), Overhead::new(Some(us(30)), us(40)), "sent after the call");
        assert_eq!(overhead(None, 460), Overhead::new(None, us(40)));
        // The wall clock was set during the exchange.
        assert_eq!(overhead(Some((470, 480)), 400), Overhead::default(), "received before it was sent");
        assert_eq!(overhead(Some((20, 30)), 530), Overhead::default(), "received after it was read");
        assert_eq!(clocks.overhead((sent, done), Some((0, sent)), stamp(400)), Overhead::default(), "sent in 1970");
        assert_eq!(clocks.overhead((sent, done), None, u64::MAX), Overhead::default());
        // Readings of two clocks differ slightly.
        assert_eq!(overhead(Some((20, 30)), 505), Overhead::new(Some(us(20)), us(0)));
    }
}
