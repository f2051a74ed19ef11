//! Tests of the reactor, with `epoll_pwait2` and with the timer descriptor of older kernels.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::{Notify, oneshot};
use tokio::task::{LocalSet, spawn_local};

use super::timer::Alarm;
use super::*;

/// Runs `task` with each kind of poller; `spins` as in [`block_on`].
fn run_each<T, F: Future<Output = T>>(spins: bool, mut task: impl FnMut() -> F) -> [T; 2] {
    [true, false].map(|precise| {
        let reactor = Reactor::new(spins, Poller::new(precise).unwrap()).unwrap();
        run(reactor, LocalSet::new().run_until(task())).unwrap()
    })
}

/// Returns the order in which sleepers of four instants wake. Checks that none wakes early.
async fn woken(timer: Timer) -> Vec<u64> {
    let woken = Rc::new(RefCell::new(Vec::new()));
    let start = Instant::now();
    let tasks = [30_u64, 10, 20, 0].map(|ms| {
        let (timer, woken) = (timer.clone(), woken.clone());
        spawn_local(async move {
            let due = start + Duration::from_millis(ms);
            timer.sleep_until(due).await;
            assert!(Instant::now() >= due);
            woken.borrow_mut().push(ms);
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    woken.take()
}

#[test]
fn sleepers_wake_in_the_order_of_their_instants_and_never_early() {
    for spins in [false, true] {
        for order in run_each(spins, || async { woken(timer(false).unwrap()).await }) {
            assert_eq!(order, [0, 10, 20, 30], "spins: {spins}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let order = LocalSet::new().block_on(&runtime, async {
            let timer = timer(spins).unwrap();
            let driver = timer.clone();
            spawn_local(async move { driver.drive().await });
            woken(timer).await
        });
        assert_eq!(order, [0, 10, 20, 30], "on Tokio, spins: {spins}");
    }
}

#[test]
fn only_a_spinning_timer_counts_time_awake() {
    for spins in [false, true] {
        let before = cpu::thread_spun();
        let spun = || cpu::thread_spun() - before;
        // On a busy machine the thread may wake only when a sleeper is due.
        for _ in 0..100 {
            run_each(spins, || async { woken(timer(false).unwrap()).await });
            if !spins || spun() > 0.0 {
                break;
            }
        }
        assert_eq!(spun() > 0.0, spins, "{} s", spun());
    }
}

#[test]
fn a_sleeper_that_comes_during_a_wait_for_a_later_one_wakes_in_time() {
    let orders = run_each(false, || async {
        let (timer, order) = (timer(false).unwrap(), Rc::new(RefCell::new(Vec::new())));
        let (send, receive) = oneshot::channel();
        let (late, last) = (timer.clone(), order.clone());
        let later = spawn_local(async move {
            late.sleep_until(Instant::now() + Duration::from_millis(300)).await;
            last.borrow_mut().push("later");
        });
        // Another thread wakes this task while the reactor waits for the other.
        thread::spawn(move || send.send(()).unwrap());
        receive.await.unwrap();
        timer.sleep_until(Instant::now() + Duration::from_millis(1)).await;
        order.borrow_mut().push("earlier");
        later.await.unwrap();
        order.take()
    });
    assert_eq!(orders, [["earlier", "later"], ["earlier", "later"]]);
}

#[test]
fn a_cancelled_sleeper_leaves_the_queue() {
    run_each(false, || async {
        let timer = timer(false).unwrap();
        let mut sleep = Box::pin(timer.sleep_until(Instant::now() + Duration::from_secs(60)));
        assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await);
        assert!(timer.next().is_some());
        drop(sleep);
        assert!(timer.next().is_none());
    });
}

#[test]
fn each_wake_up_from_another_thread_arrives() {
    let rounds = run_each(false, || async {
        let (go, woken) = (mpsc::channel(), Arc::new(Notify::new()));
        let tell = woken.clone();
        let other = thread::spawn(move || go.1.iter().for_each(|()| tell.notify_one()));
        for _ in 0..1_000 {
            go.0.send(()).unwrap();
            woken.notified().await;
        }
        drop(go.0);
        other.join().unwrap();
        1_000
    });
    assert_eq!(rounds, [1_000, 1_000]);
}

#[test]
fn an_alarm_fires_once_due_and_a_dropped_one_does_not_end_a_wait() {
    run_each(false, || async {
        let start = Instant::now();
        let alarm = |ms| Alarm::at(start + Duration::from_millis(ms)).unwrap();
        let (mut kept, dropped) = (alarm(20), alarm(1));
        let waiting = || with_current(|reactor| reactor.timer().next()).unwrap();
        assert_eq!(waiting(), Some(dropped.due()));
        drop(dropped);
        assert_eq!(waiting(), Some(kept.due()));
        poll_fn(|cx| kept.poll(cx)).await;
        assert!(Instant::now() >= kept.due());
        kept = alarm(0);
        poll_fn(|cx| kept.poll(cx)).await;
        assert_eq!(waiting(), None);
    });
    assert!(Alarm::at(Instant::now()).is_none(), "outside a reactor");
}

#[test]
fn tokios_timers_work_beside_the_reactor() {
    run_each(false, || async {
        let never = tokio::time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
        assert!(never.is_err());
    });
}

/// Starts a server that passes each connection to `serve` on a new thread. Returns its address.
fn serving(serve: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for socket in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(socket.unwrap()));
        }
    });
    address
}

/// Sends back all bytes that it receives.
fn echo(mut socket: std::net::TcpStream) {
    let mut space = [0; 9_000];
    while let Ok(count @ 1..) = socket.read(&mut space) {
        socket.write_all(&space[..count]).unwrap();
    }
}

#[test]
fn bytes_arrive_whole_whether_they_fill_the_sockets_or_not() {
    let address = serving(echo);
    for len in [1, 4_096, 3 << 20] {
        run_each(false, || async move {
            let stream = TcpStream::connect(&address).await.unwrap();
            let bytes: Vec<u8> = (0..len as u32).map(|at| (at % 251) as u8).collect();
            let (mut reading, mut writing) = tokio::io::split(stream);
            let sent = bytes.clone();
            let writer = spawn_local(async move { writing.write_all(&sent).await });
            let mut back = vec![0; len];
            reading.read_exact(&mut back).await.unwrap();
            writer.await.unwrap().unwrap();
            assert!(back == bytes, "{len} bytes");
        });
    }
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_read() {
    let address = serving(|mut socket| socket.write_all(b"bye").unwrap());
    run_each(false, || async move {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"bye");
    });
}

#[test]
fn a_reset_and_a_refused_connection_are_errors() {
    let address = serving(|socket| {
        // Closing with unread bytes resets the connection.
        socket.peek(&mut [0]).unwrap();
    });
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    run_each(false, || async move {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"unread").await.unwrap();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let error = TcpStream::connect(&free).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_socket_that_is_never_empty_lets_sleepers_wake() {
    let address = serving(|mut socket| while socket.write_all(&[7; 1 << 16]).is_ok() {});
    run_each(false, || async move {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let reading = spawn_local(async move {
            let mut bytes = [0; 64];
            while stream.read_exact(&mut bytes).await.is_ok() {}
        });
        timer(false).unwrap().sleep_until(Instant::now() + Duration::from_millis(20)).await;
        reading.abort();
    });
}

#[test]
fn many_connections_get_their_own_bytes() {
    let address = serving(echo);
    run_each(false, || async move {
        let clients: Vec<_> = (0..200_u32)
            .map(|client| {
                spawn_local(async move {
                    let mut stream = TcpStream::connect(&address).await.unwrap();
                    for round in 0..20 {
                        stream.write_u32(client * 100 + round).await.unwrap();
                        assert_eq!(stream.read_u32().await.unwrap(), client * 100 + round);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[test]
fn a_socket_that_is_closed_while_read_passes_no_event_to_the_next_with_its_number() {
    let address = serving(echo);
    run_each(false, || async move {
        for _ in 0..50 {
            let mut first = TcpStream::connect(&address).await.unwrap();
            first.write_all(b"old").await.unwrap();
            let mut space = [0; 8];
            let pending = poll_fn(|cx| {
                Poll::Ready(Pin::new(&mut first).poll_read(cx, &mut ReadBuf::new(&mut space)).is_pending())
            });
            assert!(pending.await);
            let token = first.token;
            drop(first);
            let mut second = TcpStream::connect(&address).await.unwrap();
            assert_eq!(second.token as u32, token as u32, "the entry is used again");
            assert_ne!(second.token, token);
            with_current(|reactor| assert!(reactor.sockets.borrow().get(token).is_none()));
            second.write_all(b"new").await.unwrap();
            let count = second.read(&mut space).await.unwrap();
            assert_eq!(&space[..count], b"new");
        }
    });
}

#[test]
fn a_task_that_yields_lets_the_sockets_be_read() {
    let address = serving(echo);
    run_each(false, || async move {
        let answered = Rc::new(Cell::new(false));
        let told = answered.clone();
        spawn_local(async move {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(b"ping").await.unwrap();
            stream.read_u32().await.unwrap();
            told.set(true);
        });
        while !answered.get() {
            yield_now().await;
        }
    });
}

#[test]
fn a_panic_leaves_the_thread_ready_for_another_reactor() {
    for _ in 0..2 {
        let lost = std::panic::catch_unwind(|| block_on(false, async { panic!("lost") }));
        assert!(lost.is_err());
        assert!(!is_running());
    }
    assert_eq!(block_on(false, async { 7 }).unwrap(), 7);
}

#[test]
fn a_value_of_another_thread_is_refused_and_not_dropped_there() {
    let value = on_thread::OnThread::new(Rc::new(7));
    let kept = value.get().clone();
    let lost = thread::spawn(move || {
        assert!(!value.is_here());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| **value.get())).is_err()
    });
    assert!(lost.join().unwrap());
    assert_eq!(Rc::strong_count(&kept), 2, "it was leaked");
}

/// Sends requests of `len` bytes and reads each answer late. Checks that the delay is overhead of the generator.
async fn read_late(len: usize) {
    let _stamped = Timestamping::start().unwrap();
    timestamp_connections();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = vec![0; len];
        while stream.read_exact(&mut question).is_ok() {
            stream.write_all(b"answer").unwrap();
            tell.send(Instant::now()).unwrap();
        }
    });
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let (question, mut answer) = (vec![7; len], [0; 6]);
    let mut of_both = 0;
    for _ in 0..3 {
        let sent = Instant::now();
        stream.begin_request();
        stream.write_all(&question).await.unwrap();
        let answered = told.recv().unwrap();
        while answered.elapsed() < 3 * (answered - sent) {}
        stream.read_exact(&mut answer).await.unwrap();
        let done = Instant::now();
        let overhead = stream.overhead(sent, done);
        let total = overhead.total().unwrap();
        // The kernel had the answer before the server's call returned. Readings of two clocks differ slightly.
        assert!(total + Duration::from_micros(20) >= done - answered && total < done - sent, "{len}: {overhead:?}");
        of_both += u32::from(!overhead.is_receive_only());
        assert!(stream.try_read(&mut answer).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
    }
    // On a busy machine, the kernel drops the timestamp of a large question now and then.
    assert!(of_both > 0, "{len}");
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_late_read_is_overhead_of_the_generator() {
    for len in [3, 8 << 20] {
        run_each(false, || read_late(len));
    }
}

#[test]
fn a_connection_without_timestamps_has_no_overhead() {
    run_each(false, || async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(&listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let sent = Instant::now();
        stream.begin_request();
        stream.write_all(b"ask").await.unwrap();
        server.write_all(b"answer").unwrap();
        stream.read_exact(&mut [0; 6]).await.unwrap();
        assert_eq!(stream.overhead(sent, Instant::now()).total(), None);
    });
}

#[test]
fn a_connection_with_timestamps_that_the_server_resets_ends() {
    run_each(false, || async {
        let _stamped = Timestamping::start().unwrap();
        timestamp_connections();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(&listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().unwrap();
        stream.write_all(b"ask").await.unwrap();
        // Unread bytes turn the close into a reset.
        while server.peek(&mut [0; 3]).unwrap() < 3 {}
        drop(server);
        assert!(stream.read_exact(&mut [0; 6]).await.is_err());
    });
}
