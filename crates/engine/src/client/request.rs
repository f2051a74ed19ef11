//! Requests of one iteration, from scheduled time to record.

use std::time::Instant;

use super::{ClientSeat, Iteration, Stream, StreamEnd, Worker};
use crate::client::retry_state::RetryState;
use crate::client::stream_plan::{Choice, Group, StreamPlan, trace};
use crate::driver::{Driver, ErrorClass, Failure, Overhead, Reply};
use crate::pacing::schedule::{salt, think};
use crate::plan::Visible;
use crate::recording::recorder::Times;
use crate::util::draw::Draw;
use crate::util::trace::Trace;
use crate::workload::numbering::Use;
use crate::workload::variables::{Captured, Values};

/// Scheduled time of a request, and the time when the generator started it.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub scheduled: Instant,
    pub started: Instant,
    /// Trace context of the current attempt, if the request is sampled.
    pub trace: Option<Trace>,
}

impl Start {
    /// Creates the times of a request without a trace context. `started`: when the generator began it.
    pub fn new(scheduled: Instant, started: Instant) -> Self {
        Self { scheduled, started, trace: None }
    }
}

/// Result of a request.
pub(super) struct RequestOutcome {
    pub done: Instant,
    pub failed: Option<ErrorClass>,
    /// Whether any of it was sent.
    pub was_sent: bool,
}

impl<D: Driver> Worker<D> {
    /// Runs one iteration: one request, or all requests of a journey, each after its think time.
    /// Returns the number and the end time of the last request, and whether any of it was sent. A journey stops at the
    /// end of the stream, and skips the visibility check of a failed write; a skipped request ends when it was due.
    pub(super) async fn walk(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        ticket: Iteration,
        start: Start,
    ) -> (u64, Instant, bool) {
        let stream_plan = &self.phase.stream_plans[stream.index];
        let (steps, first) = (stream_plan.steps(), ticket.iteration * stream_plan.steps());
        let RequestOutcome { mut done, mut failed, mut was_sent } =
            self.request(stream, connection, seat, ticket, 0, start).await;
        for step in 1..steps {
            let k = first + step;
            let scheduled = done + think(&stream_plan.thinks[step as usize - 1], &self.draw(stream, k - 1));
            self.sleep_until(stream, scheduled).await;
            if self.is_over(stream, scheduled) {
                self.settle(stream, ticket, step as usize);
                return (k - 1, done, was_sent);
            }
            if failed.is_some_and(write_failed) && self.pick(stream, k, step as usize, ticket).visible.is_some() {
                self.skip(stream, ticket, step as usize);
                // The next step is due after its own think time, which begins now.
                done = scheduled;
                continue;
            }
            let start = Start::new(scheduled, Instant::now());
            RequestOutcome { done, failed, was_sent } =
                self.request(stream, connection, seat, ticket, step as usize, start).await;
        }
        (first + steps - 1, done, was_sent)
    }

    /// Runs the request of step `step` of an iteration, with its retries, records it and settles its counter number.
    /// If a captured value is missing, records a failure instead of sending. `step`: from 0; 0 for a mix.
    pub(super) async fn request(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        ticket: Iteration,
        step: usize,
        start: Start,
    ) -> RequestOutcome {
        let stream_plan = &self.phase.stream_plans[stream.index];
        let k = ticket.iteration * stream_plan.steps() + step as u64;
        let choice = self.pick(stream, k, step, ticket);
        let mut draw = Draw {
            user: seat.client,
            number: choice.uses.map_or(0, |_| number_of(stream_plan, ticket, step)),
            settled: choice.reads.map_or(0, |counter| self.phase.counters[counter].settled()),
            turn: stream.turn(choice.number),
            roams: stream.roams,
            ..self.draw(stream, k)
        };
        let knows = |slot| self.phase.driver.memory(connection).is_some_and(|memory| memory.has(slot));
        let outcome = match choice.lacks(knows) {
            Some(name) => self.record(stream, choice, seat, start, unsent(name)),
            None => self.ask(stream, connection, seat, choice, &mut draw, start).await,
        };
        if let (Some(counter), Some(count)) = (choice.uses, &stream.count) {
            count.borrow_mut().settle(counter, draw.number, &self.phase.counters);
        }
        outcome
    }

    /// Sends a request with its retries, or repeats it until a write is visible, and records it. Returns its end time,
    /// its error class (`None` for a success), and whether any of it was sent.
    pub(super) async fn ask(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        choice: &Choice<D>,
        draw: &mut Draw,
        mut start: Start,
    ) -> RequestOutcome {
        self.waiting.borrow_mut()[seat.place] = Some((choice.slot, start.scheduled));
        let plan = &self.phase.plan.streams[stream.index];
        let mut retries = 0;
        let (driver, context) = (&self.phase.driver, &self.phase.context);
        if let Some(visible) = &choice.visible {
            let reply = self.look(stream, connection, seat, choice, visible, draw, start).await;
            self.keep_answer(connection, choice, &reply);
            return self.record(stream, choice, seat, start, reply);
        }
        stream.retry_budget.earn(&plan.back_off);
        let (is_first, newest) = self.before(connection, choice, draw);
        let traced = choice.traced(draw);
        let mut retry_state = RetryState::default();
        let mut reply = loop {
            if let Some(run) = traced {
                start.trace = Some(trace(draw, run, retries));
                draw.trace = start.trace;
            }
            let mut reply = driver.execute(connection, &choice.operation, context, draw, retry_state.documents()).await;
            if retries == plan.retries || !RetryState::is_retryable(&plan.back_off, &reply) {
                break retry_state.settle(reply);
            }
            let chance = draw.unit(salt::BACK_OFF + u64::from(retries.min(1000)));
            let due = reply.done + RetryState::pause(&plan.back_off, &reply, retries, chance);
            if self.ends(stream).is_some_and(|ends| due > ends) || !stream.retry_budget.take(&plan.back_off) {
                break retry_state.settle(reply);
            }
            retries += 1;
            retry_state.after(&mut reply);
            // Compute the times after the answer: the phase may end during the request.
            let times = self.times(stream, seat, start);
            self.recorder.borrow_mut().attempt(choice.slot, times, reply, &self.waiting.borrow());
            self.sleep_until(stream, due).await;
        };
        self.keep_answer(connection, choice, &reply);
        choice.first_executions.record(start.scheduled, is_first, newest, &mut reply);
        self.record(stream, choice, seat, start, reply)
    }

    /// Returns whether a request is the first with its values, which it remembers, and the arrival time of the newest
    /// visible event. To be called before sending. The first is `None` if first executions are not recorded or the set
    /// of requests is full; the second if data age is not recorded or no event is visible.
    fn before(
        &self,
        connection: &mut D::Connection,
        choice: &Choice<D>,
        draw: &Draw,
    ) -> (Option<bool>, Option<Instant>) {
        let is_first = choice.first_executions.requests.as_ref().and_then(|requests| {
            let none = Captured::NONE;
            let captured = self.phase.driver.memory(connection).map_or(&none, |captured| &*captured);
            requests.is_first(&Values { variables: &self.phase.context.variables, draw, captured })
        });
        let newest = choice.first_executions.shows.and_then(|stream| self.phase.sources[stream].as_ref()?.shown());
        (is_first, newest)
    }

    /// Stores the client's last answer for live display. Does nothing if the operation's answers are not displayed,
    /// the request failed, the display is not due, or the driver has no answer.
    fn keep_answer(&self, connection: &D::Connection, choice: &Choice<D>, reply: &Reply) {
        let Some(kept) = choice.kept.as_ref().filter(|_| reply.outcome.is_ok()) else { return };
        if kept.is_due(reply.done)
            && let Some(answer) = self.phase.driver.answer(connection, &choice.operation)
        {
            kept.keep(answer.into_owned());
        }
    }

    /// Repeats a request until it succeeds, which shows that a write is visible, with a pause of `every`.
    /// Fails after `within`, counted from the scheduled time: as [`ErrorClass::Unseen`] if the last answer was an
    /// assertion or client error, otherwise with the class of the last attempt. All attempts count as one request, from
    /// the first sending to the last answer.
    #[allow(clippy::too_many_arguments)]
    async fn look(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: ClientSeat,
        choice: &Choice<D>,
        Visible { every, within, .. }: &Visible,
        draw: &mut Draw,
        mut start: Start,
    ) -> Reply {
        let end = start.scheduled + *within;
        let mut first = None;
        let mut looks: u32 = 0;
        let traced = choice.traced(draw);
        loop {
            if let Some(run) = traced {
                start.trace = Some(trace(draw, run, looks));
                draw.trace = start.trace;
            }
            let reply = self.phase.driver.execute(connection, &choice.operation, &self.phase.context, draw, None).await;
            let sent = *first.get_or_insert(reply.sent);
            looks += 1;
            let next = reply.done + *every;
            if reply.outcome.is_ok() || next > end {
                // The span of the last poll; the request lasts from the first one.
                self.recorder.borrow_mut().trace(choice.slot, self.times(stream, seat, start), &reply, false);
            }
            // The last poll's overhead is not that of the request.
            let overhead = Overhead::default();
            let Err(failure) = &reply.outcome else { return Reply { sent, overhead, ..reply } };
            if next > end {
                // Without an answer, visibility is unknown: keep the error class.
                let answered = matches!(failure.class, ErrorClass::Assertion | ErrorClass::Client);
                let class = if answered { ErrorClass::Unseen } else { failure.class };
                let message =
                    format!("not visible after {} s and {looks} polls: {}", within.as_secs_f64(), failure.message);
                return Reply { sent, outcome: Err(Failure::new(class, message)), documents: 0, ..reply };
            }
            self.recorder.borrow_mut().saw_nothing(
                choice.slot,
                self.times(stream, seat, start),
                &reply,
                &self.waiting.borrow(),
            );
            self.timer.sleep_until(next).await;
        }
    }

    /// Returns the times of a request for the recorder, with the end of its stream, its client and its trace.
    pub(super) fn times(&self, stream: &Stream, seat: ClientSeat, start: Start) -> Times {
        let Start { scheduled, started, trace } = start;
        Times { scheduled, started, ends: self.ends(stream), client: seat.client, trace }
    }

    /// Records a finished request, and frees its seat: it is no longer in flight. Updates the stream's last end.
    /// Returns the request's end time, its error class (`None` for a success), and whether any of it was sent.
    pub(super) fn record(
        &self,
        stream: &Stream,
        choice: &Choice<D>,
        seat: ClientSeat,
        start: Start,
        reply: Reply,
    ) -> RequestOutcome {
        let done = reply.done;
        let failed = reply.outcome.as_ref().err();
        // Only a failed connect needs a back-off: a connection that broke under a request reopens at once.
        let was_sent = failed.is_none() || reply.bytes_sent > 0;
        let failed = failed.map(|failure| failure.class);
        let end = &self.ends[stream.index];
        end.set(StreamEnd { last_done: end.get().last_done.max(done - self.start), ..end.get() });
        // Keep the request in flight until it is recorded: recording may end a second, which lists the
        // requests in flight.
        self.recorder.borrow_mut().request(choice.slot, self.times(stream, seat, start), reply, &self.waiting.borrow());
        self.waiting.borrow_mut()[seat.place] = None;
        RequestOutcome { done, failed, was_sent }
    }

    /// Returns iteration number `n` of the stream, and takes the counter numbers that it uses.
    #[inline]
    pub(super) fn ticket(&self, stream: &Stream, n: u64) -> Iteration {
        let none = Use { group: 0, number: 0 };
        let uses = stream.count.as_ref().map_or(none, |count| count.borrow_mut().take(n, &self.phase.counters));
        Iteration { iteration: n, uses, turn: None }
    }

    /// Settles the counter numbers of an iteration's requests from step `step` (from 0) on, which will not be sent.
    pub(super) fn settle(&self, stream: &Stream, ticket: Iteration, step: usize) {
        for step in step..self.phase.stream_plans[stream.index].steps() as usize {
            self.skip(stream, ticket, step);
        }
    }

    /// Settles the counter number of the request of step `step`, which will not be sent.
    fn skip(&self, stream: &Stream, ticket: Iteration, step: usize) {
        let Some(count) = &stream.count else { return };
        let stream_plan = &self.phase.stream_plans[stream.index];
        let k = ticket.iteration * stream_plan.steps() + step as u64;
        if let Some(counter) = self.pick(stream, k, step, ticket).uses {
            count.borrow_mut().settle(counter, number_of(stream_plan, ticket, step), &self.phase.counters);
        }
    }

    /// Returns the key of the random draws of request `k` of a stream.
    #[inline]
    pub(super) fn draw(&self, stream: &Stream, k: u64) -> Draw {
        let iteration = k / self.phase.stream_plans[stream.index].steps();
        Draw { iteration, ..Draw::new(self.phase.plan.seed, stream.key, k) }
    }

    /// Returns the operation of request `k`: the iteration's turn in a permuted mix, step `step` of a journey or group,
    /// or a draw by the weights of a mix. If the operations of a mix use different counters, only those with the counter
    /// of the ticket are drawn. The same arguments always give the same operation.
    #[inline]
    pub(super) fn pick(&self, stream: &Stream, k: u64, step: usize, ticket: Iteration) -> &Choice<D> {
        let stream_plan = &self.phase.stream_plans[stream.index];
        if let Some(turn) = ticket.turn {
            return &stream_plan.choices[turn];
        }
        match (stream_plan.choices.as_slice(), stream_plan.groups.get(ticket.uses.group)) {
            ([only], _) => only,
            (steps, _) if !stream_plan.thinks.is_empty() => &steps[step],
            (mix, Some(Group { choices, .. })) => {
                let draw = self.draw(stream, k).unit(salt::MIX);
                &mix[choices.iter().find(|(below, _)| draw < *below).unwrap_or(&choices[choices.len() - 1]).1]
            }
            (mix, None) => {
                let draw = self.draw(stream, k).unit(salt::MIX);
                mix.iter().find(|choice| draw < choice.below).unwrap_or(&mix[mix.len() - 1])
            }
        }
    }
}

/// Returns whether a failure of this class is a failed write, after which nothing can become visible: every class
/// except [`ErrorClass::Unseen`], a failed visibility check.
fn write_failed(failed: ErrorClass) -> bool {
    failed != ErrorClass::Unseen
}

/// Returns the reply of a request that is not sent, because the user has not captured a value for variable `name`.
pub fn unsent(name: &str) -> Reply {
    let message = format!("not sent: this user has not captured a value for \"{name}\" yet");
    Reply::unsent(Failure::new(ErrorClass::Assertion, message))
}

/// Returns the counter number of the request of step `step` of an iteration: the iteration's first number, plus one
/// for each earlier step that uses a counter. For a mix, returns the first number.
fn number_of<D: Driver>(stream_plan: &StreamPlan<D>, ticket: Iteration, step: usize) -> u64 {
    // A mix has one step.
    let before = stream_plan.choices.iter().take(if stream_plan.thinks.is_empty() { 0 } else { step });
    ticket.uses.number + before.filter(|choice| choice.uses.is_some()).count() as u64
}
