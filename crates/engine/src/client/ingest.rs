//! Ingesting clients: each takes a batch of a source's events, sends it, and returns unstored events to the
//! queue.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::request::Start;
use super::{ClientSeat, Stream, Worker};
use crate::client::retry_state::RetryState;
use crate::client::stream_plan::{Choice, trace};
use crate::driver::{Driver, ErrorClass, ReplyPart};
use crate::ingest::chunk::InFlightBatch;
use crate::ingest::queue::Next;
use crate::ingest::{Disposition, Source, dispositions};

/// Back-off of a client that cannot connect; it doubles with each such request in a row.
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum back-off of a client that cannot connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl<D: Driver> Worker<D> {
    /// Sends batches of a source's events as client number `client`, until the source has ended and all are settled.
    /// Unstored events go back to the queue. After a failed connect it waits 100 ms, doubled after each further one in
    /// a row, up to 2 s.
    pub(super) async fn ingest(self: Rc<Self>, stream: Rc<Stream>, source: Arc<Source>, client: u64) {
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        let mut pause = PAUSE;
        let mut free = Instant::now();
        source.queue.join();
        while let Some(mut in_flight) = self.next_batch(&stream, &source).await {
            // The generator's delay starts when both the batch and a client were ready.
            let ready = in_flight.ready.map(|ready| ready.max(free));
            let late = ready.map_or(Duration::ZERO, |ready| Instant::now().saturating_duration_since(ready));
            let sent = self.send(&stream, &mut connection, seat, &source, &mut in_flight, late).await;
            match in_flight.left {
                None => source.queue.done(&in_flight),
                Some(_) => source.queue.put_back(in_flight, sent.stuck),
            }
            // Without a connection, other batches would fail too.
            if sent.unreachable {
                self.timer.sleep_until(Instant::now() + pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            } else {
                pause = PAUSE;
            }
            free = Instant::now();
        }
        self.set_ran_out(stream.index, source.queue.ran_out());
    }

    /// Waits for the next batch; returns `None` when the source has ended. Closes the queue at the end of the stream;
    /// batches queued before are still returned.
    async fn next_batch(&self, stream: &Stream, source: &Source) -> Option<InFlightBatch> {
        loop {
            // Register for wake-ups only while waiting: a busy client would lose the wake-up.
            let mut changed = std::pin::pin!(source.queue.changed());
            changed.as_mut().enable();
            let now = Instant::now();
            if self.is_over(stream, now) {
                // Events that arrived before the end are still sent.
                source.queue.close();
            }
            let until = match source.queue.take(now) {
                Next::Batch(in_flight) => return Some(in_flight),
                Next::Wait(until) => until,
                Next::Ended => return None,
            };
            let ends = self.ends(stream).filter(|ends| *ends > now);
            let until = until.into_iter().chain(ends).min();
            let due = async {
                match until {
                    Some(until) => self.timer.sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed => {}
                () = due => {}
                () = self.over.notified() => {}
            }
        }
    }

    /// Sends the remaining events of a batch; with routes, in a separate request to the operation of each kind.
    /// Unstored events stay in the batch. `late`: the generator's delay. The result says whether no event was settled,
    /// and whether a connection failed.
    async fn send(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        source: &Source,
        in_flight: &mut InFlightBatch,
        late: Duration,
    ) -> SendResult {
        let stream_plan = &self.phase.stream_plans[stream.index];
        let [first, others @ ..] = stream_plan.choices.as_slice() else { unreachable!("a source has an operation") };
        if others.is_empty() {
            return self.send_to(first, stream, connection, seat, source, in_flight, late).await;
        }
        let all = in_flight.left.take().unwrap_or_else(|| (0..in_flight.batch.events.len() as u32).collect());
        let (mut left, mut result) = (Vec::new(), SendResult { stuck: true, unreachable: false });
        for choice in &stream_plan.choices {
            let is_routed =
                |place: &u32| stream_plan.route(in_flight.batch.events[*place as usize].kind) == choice.number;
            let places: Vec<u32> = all.iter().copied().filter(is_routed).collect();
            if places.is_empty() {
                continue;
            }
            in_flight.left = Some(places);
            let sent = self.send_to(choice, stream, connection, seat, source, in_flight, late).await;
            result.stuck &= sent.stuck;
            result.unreachable |= sent.unreachable;
            left.extend(in_flight.left.take().unwrap_or_default());
        }
        left.sort_unstable();
        in_flight.left = Some(left).filter(|left| !left.is_empty());
        result
    }

    /// Sends the remaining events of a batch by one operation, with retries but no pauses, and records the request.
    /// Unstored events stay in the batch; refused ones become dead letters. `late`: the generator's delay. The result
    /// says whether no event was settled, and whether the last attempt could not connect.
    #[expect(clippy::too_many_arguments)]
    async fn send_to(
        &self,
        choice: &Choice<D>,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        source: &Source,
        in_flight: &mut InFlightBatch,
        late: Duration,
    ) -> SendResult {
        let scheduled = in_flight.oldest().unwrap_or_else(Instant::now);
        // Waiting for events or for a free client does not count as the generator's delay.
        let mut start = Start::new(scheduled, scheduled + late);
        self.waiting.borrow_mut()[seat.place] = Some((choice.slot, scheduled));
        let node = stream.due_node(choice.number);
        stream.count_node(choice.number, node);
        self.turn_to(stream, connection, node, true);
        let name = self.phase.driver.parts(&choice.operation).len();
        let most = self.phase.plan.streams[stream.index].retries;
        let (driver, context) = (&self.phase.driver, &self.phase.context);
        let mut retry_state = RetryState::of(in_flight.left.take());
        let mut parts = Vec::new();
        let (mut retries, mut stuck) = (0, true);
        // Batch n of worker w of W counts as request w + n * W.
        let number = stream.batches.replace(stream.batches.get() + 1);
        let draw = self.draw(stream, stream.share.index + number * stream.share.of);
        let traced = choice.traced(&draw);
        loop {
            in_flight.batch.trace = traced.map(|run| trace(&draw, run, retries));
            start.trace = in_flight.batch.trace;
            let reply =
                driver.ingest(connection, &choice.operation, context, &in_flight.batch, retry_state.documents()).await;
            let mut dispositions = dispositions(&reply, in_flight.batch.events.len(), retry_state.documents());
            let words = reply.outcome.as_ref().err().map_or("", |failure| failure.message.as_str());
            source.settle(in_flight, &mut dispositions, words);
            let part = |&(place, disposition): &(u32, Disposition)| {
                let failed = match disposition {
                    Disposition::Left => return None,
                    Disposition::Taken => None,
                    Disposition::Refused => Some(ErrorClass::Item),
                };
                let sent = in_flight.batch.events[place as usize].arrived;
                Some(ReplyPart { name, sent, done: reply.done, documents: u64::from(failed.is_none()), failed })
            };
            parts.extend(dispositions.iter().filter_map(part));
            let left: Vec<u32> = dispositions
                .iter()
                .filter(|(_, disposition)| *disposition == Disposition::Left)
                .map(|(place, _)| *place)
                .collect();
            stuck &= left.len() == dispositions.len();
            if !left.is_empty() && retries < most {
                retries += 1;
                retry_state.after_leaving(&reply, left);
                let times = self.times(stream, seat, start);
                self.recorder.borrow_mut().attempt(choice.slot, times, reply, &self.waiting.borrow());
                continue;
            }
            in_flight.left = Some(left).filter(|left| !left.is_empty());
            let mut reply = retry_state.settle(reply);
            reply.parts.append(&mut parts);
            let recorded = self.record(stream, choice, seat, start, reply);
            return SendResult { stuck, unreachable: stuck && recorded.failed == Some(ErrorClass::Connect) };
        }
    }
}

/// Result of sending a batch.
struct SendResult {
    /// No event was settled.
    stuck: bool,
    /// The client could not connect.
    unreachable: bool,
}
