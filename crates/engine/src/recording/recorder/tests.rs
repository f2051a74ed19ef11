use crate::driver::{ErrorClass, NO_NODE};
use std::sync::mpsc::channel;

use super::*;

/// Creates a reply of node 1 with three documents, 10 bytes sent and 20 bytes received.
fn reply(sent: Instant, done: Instant, outcome: Result<(), Failure>) -> Reply {
    Reply { bytes_sent: 10, bytes_received: 20, documents: 3, node: 1, ..Reply::new(sent, done, outcome) }
}

#[test]
fn a_request_counts_in_its_second_and_in_the_segment_it_was_scheduled_in() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 1, start, || Duration::from_secs(1), false, finished, empty);
    let times = |ms| Times { scheduled: at(ms), started: at(ms), ends: Some(at(1250)), client: 0, trace: None };
    recorder.request(0, times(100), reply(at(110), at(200), Ok(())), &[]);
    recorder.request(0, times(900), reply(at(900), at(1100), Ok(())), &[]);
    let failure = Failure::new(ErrorClass::Rejected, "busy");
    recorder.request(0, times(1100), reply(at(1100), at(1200), Err(failure)), &[]);
    recorder.request(0, times(1200), reply(at(1200), at(1260), Ok(())), &[]);
    recorder.finish(at(1300), &[]);
    drop(recorder);
    let seconds: Vec<_> = intervals.iter().collect();
    assert_eq!(seconds.len(), 2);
    let warm = seconds[0].cells[0].as_ref().unwrap();
    assert_eq!(warm.counts.successes, 1);
    assert_eq!(warm.response.max() / 100_000, 1000, "response time runs from the scheduled instant");
    assert_eq!(warm.service.max() / 100_000, 900, "service time runs from the sent instant");
    assert_eq!(requests(warm), [0, 1]);
    assert!(seconds[0].cells[1].is_none());
    let late_warm = seconds[1].cells[0].as_ref().unwrap();
    assert_eq!(late_warm.counts.successes, 1, "done after the warm-up, scheduled in it");
    let measured = seconds[1].cells[1].as_ref().unwrap();
    assert_eq!((measured.counts.requests, measured.counts.successes), (2, 1));
    assert_eq!((late_warm.counts.completed, measured.counts.completed), (1, 0), "by the instant they were done");
    assert_eq!(late_warm.counts.completed_documents, 3);
    assert_eq!(measured.counts.errors[ErrorClass::Rejected as usize], 1);
    assert_eq!(measured.response.len(), 1, "failed requests are not in the response times");
    assert_eq!(seconds[1].messages[0].text, "busy");
}

/// A part is recorded in the slot after its operation, with its own service time.
#[test]
fn a_part_is_written_down_behind_its_operation_with_the_time_between_its_own_instants() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 3, start, || Duration::ZERO, false, finished, empty);
    let times = Times { scheduled: at(0), started: at(0), ends: Some(at(850)), client: 0, trace: None };
    let part = |name, sent, done, failed| ReplyPart { name, sent: at(sent), done: at(done), documents: 4, failed };
    let failure = Failure::new(ErrorClass::Server, "lost");
    let parts = vec![
        part(0, 100, 300, None),
        part(1, 300, 800, None),
        part(1, 800, 900, None),
        part(1, 900, 950, Some(ErrorClass::Server)),
    ];
    recorder.request(0, times, Reply { parts, ..reply(at(100), at(950), Err(failure)) }, &[]);
    recorder.finish(at(990), &[]);
    drop(recorder);
    let second = intervals.recv().unwrap();
    let cell = |slot: usize| second.cells[2 * slot + 1].as_ref().unwrap();
    assert_eq!((cell(0).counts.requests, cell(0).counts.successes), (1, 0));
    assert_eq!((cell(1).counts.requests, cell(1).service.max() / 100_000), (1, 2000));
    assert_eq!(cell(1).response, cell(1).service, "parts are not scheduled");
    let pages = &cell(2).counts;
    assert_eq!((pages.requests, pages.successes, pages.documents, pages.completed), (3, 2, 12, 1));
    assert_eq!(pages.errors[ErrorClass::Server as usize], 1);
    assert_eq!(cell(2).service.len(), 2, "failed parts are not in the service times");
}

#[test]
fn a_request_that_was_not_sent_counts_for_no_host() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, true, finished, empty);
    let times = Times { scheduled: start, started: start, ends: None, client: 0, trace: None };
    let unsent = [(ErrorClass::Assertion, "no value"), (ErrorClass::Rejected, "no primary")];
    for (class, message) in unsent {
        recorder.attempt(0, times, Reply::unsent(Failure::new(class, message)), &[]);
        recorder.request(0, times, Reply::unsent(Failure::new(class, message)), &[]);
    }
    // An attempt to connect is one at its host.
    let refused = Reply { node: 1, ..Reply::unsent(Failure::new(ErrorClass::Connect, "refused")) };
    recorder.request(0, times, refused, &[]);
    recorder.finish(start + Duration::from_millis(900), &[]);
    let second = intervals.recv().unwrap();
    let cell = second.cells[1].as_ref().unwrap();
    assert_eq!((cell.counts.requests, cell.counts.retries, requests(cell)), (3, 2, vec![0, 1]));
    assert_eq!(unsent.map(|(class, _)| cell.counts.errors[class as usize]), [1, 1]);
    assert_eq!(second.samples.iter().map(|sample| sample.node).collect::<Vec<_>>(), [NO_NODE, NO_NODE, 1]);
}

#[test]
fn a_group_of_requests_has_no_host_and_no_lateness_of_its_own() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 2, start, || Duration::ZERO, false, finished, empty);
    let times = Times { scheduled: at(100), started: at(130), ends: None, client: 0, trace: None };
    recorder.request(0, times, reply(at(130), at(200), Ok(())), &[]);
    recorder.group(1, times, Reply::new(at(100), at(300), Ok(())), &[]);
    let failure = Failure::new(ErrorClass::Server, "one of the requests in it failed");
    recorder.group(1, times, Reply::new(at(100), at(400), Err(failure)), &[]);
    recorder.finish(at(500), &[]);
    let second = intervals.recv().unwrap();
    let cell = |slot: usize| second.cells[2 * slot + 1].as_ref().unwrap();
    assert_eq!((requests(cell(0)), requests(cell(1))), (vec![0, 1], vec![]));
    let counts = &cell(1).counts;
    assert_eq!((counts.requests, counts.successes, counts.completed), (2, 1, 1));
    assert_eq!(counts.errors[ErrorClass::Server as usize], 1);
    assert_eq!((cell(1).response.len(), cell(1).response.max() / 1_000_000), (1, 200));
    assert_eq!(second.watch.lateness.len(), 1, "only the request was started by the generator");
}

#[test]
fn seconds_without_requests_are_handed_over_too() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, false, finished, empty);
    recorder.look(start + Duration::from_millis(3500), &[]);
    recorder.finish(start + Duration::from_millis(3600), &[]);
    drop(recorder);
    assert_eq!(intervals.iter().map(|i| i.second).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn failures_have_times_and_retried_attempts_are_counted() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, false, finished, empty);
    let times = Times { scheduled: at(100), started: at(100), ends: None, client: 0, trace: None };
    let failed = |message: &str| Err(Failure::new(ErrorClass::Rejected, message));
    recorder.attempt(0, times, reply(at(100), at(200), failed("first")), &[]);
    recorder.request(0, times, Reply { node: 0, ..reply(at(200), at(600), failed("second")) }, &[]);
    recorder.finish(at(700), &[]);
    let second = intervals.recv().unwrap();
    let cell = second.cells[1].as_ref().unwrap();
    assert_eq!((cell.counts.requests, cell.counts.retries, cell.counts.errors[2]), (1, 1, 1));
    assert_eq!((cell.counts.bytes_sent, cell.counts.bytes_received, cell.counts.documents), (20, 40, 6));
    assert_eq!(requests(cell), [1, 1], "each attempt at the host that served it");
    assert_eq!(cell.nodes.iter().map(|served| served.documents).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(second.messages.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    let failure = cell.failure.as_ref().unwrap();
    assert_eq!((failure.len(), failure.max() / 1_000_000), (1, 500), "done - scheduled of the request, retries inside");
    assert!(cell.response.is_empty());
}

#[test]
fn requests_in_flight_count_in_each_second_that_ends_meanwhile() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 2, start, || Duration::from_secs(1), false, finished, empty);
    // One request of the warm-up, two of the measurement, an idle client, and one request of the other
    // operation.
    let waiting = [Some((0, at(400))), Some((0, at(1200))), Some((0, at(1500))), None, Some((1, at(2300)))];
    recorder.look(at(3100), &waiting);
    recorder.finish(at(3500), &waiting[..1]);
    drop(recorder);
    let seconds: Vec<_> = intervals.iter().collect();
    let of = |second: usize, index: usize| {
        let (cell, used) = (&seconds[second].cells[index], seconds[second].used[index]);
        cell.as_ref().filter(|_| used).map(|cell| (cell.unanswered, cell.oldest_unanswered.as_millis()))
    };
    assert_eq!(
        (0..4).map(|second| of(second, 0)).collect::<Vec<_>>(),
        [Some((1, 600)), Some((1, 1600)), Some((1, 2600)), Some((1, 3100)),]
    );
    assert_eq!((0..4).map(|second| of(second, 1)).collect::<Vec<_>>(), [None, Some((2, 800)), Some((2, 1800)), None,]);
    assert_eq!(of(2, 3), Some((1, 700)));
    let abandoned = |second: usize| seconds[second].cells[0].as_ref().and_then(|cell| cell.abandoned.clone());
    assert!((0..3).all(|second| abandoned(second).is_none()), "only at the end");
    assert_eq!(abandoned(3).map(|waits| (waits.len(), waits.max() / 100_000_000)), Some((1, 31)));
    assert_eq!(seconds.iter().map(|second| second.watch.in_flight).collect::<Vec<_>>(), [1, 3, 4, 1]);
    let mut sum = seconds[1].cells[1].clone().unwrap();
    sum.add(seconds[2].cells[1].as_ref().unwrap());
    assert_eq!((sum.unanswered, sum.oldest_unanswered), (4, Duration::from_millis(1800)), "sum and greatest");
}

/// A request that ends in the next second counts as in flight at the end of the second before.
#[test]
fn the_request_that_shows_that_a_second_has_ended_was_in_flight_at_its_end() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, false, finished, empty);
    let times = Times { scheduled: at(900), started: at(900), ends: None, client: 0, trace: None };
    recorder.request(0, times, reply(at(900), at(1100), Ok(())), &[Some((0, at(900))), Some((0, at(1050)))]);
    let second = intervals.recv().unwrap();
    let cell = second.cells[1].as_ref().unwrap();
    assert_eq!((cell.counts.requests, cell.unanswered), (0, 1));
    assert_eq!(cell.oldest_unanswered, Duration::from_millis(100));
}

#[test]
fn a_second_is_cleared_before_it_is_filled_again() {
    let start = Instant::now();
    let mut interval = Interval::new(0, 1);
    let mut cell = Cell::new();
    cell.fail(Duration::from_secs(1));
    cell.exchanged(&reply(start, start, Ok(())), true);
    (cell.unanswered, cell.oldest_unanswered) = (3, Duration::from_secs(2));
    record(&mut cell.response, Duration::from_secs(1));
    interval.cells[1] = Some(Box::new(cell));
    interval.used[1] = true;
    record(&mut interval.watch.lag, Duration::from_secs(1));
    interval.clear();
    let cell = interval.cells[1].as_ref().unwrap();
    assert_eq!((&cell.counts, requests(cell)), (&Counts::default(), vec![0, 0]));
    assert!(cell.measures().iter().all(|(_, histogram)| histogram.is_none_or(|histogram| histogram.is_empty())));
    assert_eq!((cell.unanswered, cell.oldest_unanswered), (0, Duration::ZERO));
    assert!(interval.watch.lag.is_empty() && !interval.used[1]);
    interval.clear();
    assert!(interval.cells[1].is_none(), "what was not used for a second gives its room back");
}

/// The sum of eight cells equals one cell with all requests.
#[test]
fn the_merge_of_eight_generators_records_equals_the_record_of_all_they_saw() {
    let mut parts = vec![Cell::new(); 8];
    let mut whole = Cell::new();
    for k in 0..10_000 {
        let draw = crate::util::draw::Draw::new(3, 1, k);
        let (response, service) = (draw.bits(1) % 4_000_000_000, draw.bits(2) % 50_000);
        for cell in [&mut parts[k as usize % 8], &mut whole] {
            cell.counts.requests += 1;
            cell.counts.errors[(k % 7) as usize] += k % 2;
            record(&mut cell.response, Duration::from_micros(response));
            record(&mut cell.service, Duration::from_micros(service));
        }
    }
    let mut merged = Cell::new();
    for part in &parts {
        merged.add(part);
    }
    assert_eq!(merged.counts, whole.counts);
    assert_eq!((merged.response, merged.service), (whole.response, whole.service));
}

#[test]
fn requests_are_recorded_individually_on_request() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut recorder = Recorder::new(0, 1, start, || Duration::from_millis(150), true, finished, empty);
    let times = |ms, client| Times { scheduled: at(ms), started: at(ms), ends: None, client, trace: None };
    let good = Reply { status: Some(200), earlier: 4, ..reply(at(110), at(200), Ok(())) };
    recorder.request(0, times(100, 3), good, &[]);
    let failure = Failure::new(ErrorClass::Rejected, "busy");
    recorder.request(0, times(160, 5), reply(at(170), at(180), Err(failure)), &[]);
    recorder.attempt(0, times(160, 5), reply(at(181), at(190), Ok(())), &[]);
    recorder.dropped(0, at(190), at(190), &[]);
    recorder.finish(at(300), &[]);
    drop(recorder);
    let samples: Vec<_> = intervals.iter().flat_map(|second| second.samples).collect();
    assert_eq!(samples.len(), 2, "neither a retried attempt nor an unsent request");
    let ms = |sample: &Sample| [sample.scheduled, sample.sent, sample.done].map(|ns| ns / 1_000_000);
    assert_eq!((ms(&samples[0]), ms(&samples[1])), ([100, 110, 200], [160, 170, 180]));
    assert_eq!((samples[0].client, samples[0].documents, samples[0].status, samples[0].node), (3, 7, 200, 1));
    assert_eq!((samples[0].class, samples[0].measured), (0, false));
    assert_eq!((samples[1].class, samples[1].measured), (ErrorClass::Rejected as u8 + 1, true));
}

/// Returns the attempts by host.
fn requests(cell: &Cell) -> Vec<u64> {
    cell.nodes.iter().map(|served| served.requests).collect()
}

#[test]
fn each_request_counts_once_for_each_deadline() {
    let (finished, intervals) = channel();
    let (_, empty) = channel();
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let deadlines = vec![Duration::from_secs(1), Duration::from_secs(3)];
    let mut recorder = Recorder::new(0, 1, start, || Duration::ZERO, false, finished, empty).with_deadlines(deadlines);
    // Scheduled, started and done; whether it succeeds before each deadline. The last two start late.
    let requests = [
        (100, 100, 1050, [true, true]),
        (400, 400, 1400, [false, true]),
        (300, 300, 1350, [false, true]),
        (600, 600, 5200, [false, false]),
        (1000, 1000, 2000, [false, true]),
        (1000, 1000, 4000, [false, false]),
        (2500, 2500, 2900, [true, true]),
        (100, 2200, 2300, [false, true]),
        (200, 5100, 5300, [false, false]),
    ];
    let mut by_end = requests;
    by_end.sort_by_key(|request| request.2);
    for (place, (scheduled, started, done, _)) in by_end.into_iter().enumerate() {
        let times = Times { scheduled: at(scheduled), started: at(started), ends: None, client: 0, trace: None };
        // Those in flight before this answer; an event-loop check ends a second before requests start in it.
        let waiting = |until: u64| {
            let open = by_end[place..].iter().filter(move |request| request.1 < until);
            open.map(|request| Some((0, at(request.0)))).collect::<Vec<_>>()
        };
        for second in (1..=done / 1000).map(|second| second * 1000) {
            recorder.look(at(second), &waiting(second));
        }
        recorder.request(0, times, reply(at(started), at(done), Ok(())), &waiting(done));
    }
    // A failure before its deadline, and a request without an answer.
    let times = Times { scheduled: at(5400), started: at(5400), ends: None, client: 0, trace: None };
    let failure = Failure::new(ErrorClass::Server, "busy");
    let stuck = [Some((0, at(4100)))];
    recorder.request(0, times, reply(at(5400), at(5500), Err(failure)), &stuck);
    recorder.finish(at(5800), &stuck);
    let mut sums = Vec::new();
    for interval in intervals.try_iter() {
        interval.used_cells().for_each(|(_, _, cell)| DeadlineCounts::add_all(&mut sums, &cell.deadlines));
    }
    let met = |deadline: usize| requests.iter().filter(|request| request.3[deadline]).count() as u64;
    let all = requests.len() as u64 + 1;
    // The request without an answer has only passed the first deadline.
    let expected = [(met(0), all - met(0) + 1), (met(1), all - met(1))];
    assert_eq!(sums.iter().map(|counts| (counts.met, counts.missed)).collect::<Vec<_>>(), expected);
}
