//! The least that a client can spend on a request: `least_client epoll|io_uring HOST:PORT CONNECTIONS SECONDS`.
//!
//! Sends a fixed HTTP request on every connection, counts the bytes of the answer, and sends again. It reads no
//! clock per request, parses nothing and records nothing. Prints one JSON object: requests, CPU seconds of the
//! process in user and kernel mode, and wall-clock seconds. All answers must have the length of the first one.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};
use rustix::event::epoll;
use serde_json::json;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Bytes that one read can return.
const BUFFER: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [backend, address, connections, seconds] = arguments.as_slice() else {
        return Err("usage: least_client epoll|io_uring HOST:PORT CONNECTIONS SECONDS".into());
    };
    let mut connections =
        (0..connections.parse::<u32>()?).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
    let first = connections.first_mut().ok_or("no connections")?;
    let length = length_of_answer(first)?;
    let measured = match backend.as_str() {
        "epoll" => through_epoll,
        "io_uring" => through_io_uring,
        _ => return Err(format!("unknown back end {backend}: give epoll or io_uring").into()),
    };
    let seconds: f64 = seconds.parse()?;
    let (began, (user, system)) = (Instant::now(), cpu()?);
    let requests = measured(&connections, length, began + Duration::from_secs_f64(seconds))?;
    let (wall, (user_after, system_after)) = (began.elapsed().as_secs_f64(), cpu()?);
    let (user, system) = (user_after - user, system_after - system);
    println!("{}", json!({"requests": requests, "user": user, "system": system, "wall": wall}));
    Ok(())
}

/// Returns the length of one answer in bytes: of its head, and of the body that the head announces.
fn length_of_answer(connection: &mut TcpStream) -> Result<usize, Box<dyn std::error::Error>> {
    connection.write_all(REQUEST)?;
    let (mut answer, mut buffer) = (Vec::new(), [0; BUFFER]);
    loop {
        let read = some(connection.read(&mut buffer)?)?;
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let announced = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let body: usize = announced.ok_or("the answer is without content-length")?.trim().parse()?;
            let length = head.len() + 4 + body;
            if answer.len() >= length {
                return Ok(length);
            }
        }
    }
}

/// Exchanges requests until `end` with one `epoll_wait` for all ready connections, a `read` and a `write` for each.
fn through_epoll(connections: &[TcpStream], length: usize, end: Instant) -> io::Result<u64> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (n, mut connection) in connections.iter().enumerate() {
        epoll::add(&epoll, connection, epoll::EventData::new_u64(n as u64), epoll::EventFlags::IN)?;
        connection.write_all(REQUEST)?;
    }
    let (mut events, mut buffer) = (Vec::with_capacity(connections.len()), [0; BUFFER]);
    let (mut received, mut requests) = (vec![0; connections.len()], 0);
    while Instant::now() < end {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let n = event.data.u64() as usize;
            let mut connection = &connections[n];
            received[n] += some(connection.read(&mut buffer)?)?;
            if received[n] == length {
                (received[n], requests) = (0, requests + 1);
                connection.write_all(REQUEST)?;
            }
        }
    }
    Ok(requests)
}

/// Exchanges requests until `end` with one `io_uring_enter` for all ready connections, which sends and waits for answers.
fn through_io_uring(connections: &[TcpStream], length: usize, end: Instant) -> io::Result<u64> {
    // Kernel work for completions then runs when this thread waits, not as an interruption.
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2 * connections.len() as u32)?;
    let files: Vec<i32> = connections.iter().map(AsRawFd::as_raw_fd).collect();
    ring.submitter().register_files(&files)?;
    // The kernel may write to them until the process ends.
    let buffers = vec![[0u8; BUFFER]; connections.len()].leak();
    let receive = |n: usize, buffer: &mut [u8; BUFFER]| {
        opcode::Recv::new(types::Fixed(n as u32), buffer.as_mut_ptr(), BUFFER as u32).build().user_data(n as u64)
    };
    // The kernel starts to receive when the request is sent, and reports a send only if it failed.
    let exchange = |n: usize, buffer: &mut [u8; BUFFER]| -> [Entry; 2] {
        let send = opcode::Send::new(types::Fixed(n as u32), REQUEST.as_ptr(), REQUEST.len() as u32);
        [send.build().user_data(n as u64).flags(Flags::IO_LINK | Flags::SKIP_SUCCESS), receive(n, buffer)]
    };
    // SAFETY: the request and the buffers are never freed, and each buffer has one receive in flight.
    unsafe {
        for (n, buffer) in buffers.iter_mut().enumerate() {
            ring.submission().push_multiple(&exchange(n, buffer)).map_err(Error::other)?;
        }
        let (mut received, mut requests) = (vec![0; connections.len()], 0);
        while Instant::now() < end {
            ring.submit_and_wait(1)?;
            let (_, mut submissions, completions) = ring.split();
            for completion in completions {
                let n = completion.user_data() as usize;
                if completion.result() < 0 {
                    return Err(Error::from_raw_os_error(-completion.result()));
                }
                received[n] += some(completion.result() as usize)?;
                if received[n] == length {
                    (received[n], requests) = (0, requests + 1);
                    submissions.push_multiple(&exchange(n, &mut buffers[n])).map_err(Error::other)?;
                } else {
                    submissions.push(&receive(n, &mut buffers[n])).map_err(Error::other)?;
                }
            }
        }
        Ok(requests)
    }
}

/// Returns the number of bytes of a read, or an error if the server closed the connection.
fn some(bytes: usize) -> io::Result<usize> {
    if bytes == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// Returns the CPU time of this process in user and kernel mode, s.
fn cpu() -> io::Result<(f64, f64)> {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the structure.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) } != 0 {
        return Err(Error::last_os_error());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Ok((seconds(usage.ru_utime), seconds(usage.ru_stime)))
}
