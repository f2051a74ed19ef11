//! What a client does for one iteration: its requests one after the other, each from its scheduled instant to its
//! record.

use std::time::Instant;

use super::{Seat, Stream, StreamEnd, Ticket, Worker};
use crate::course::{Choice, Course, Group};
use crate::draw::Draw;
use crate::driver::{Driver, ErrorClass};
use crate::numbering::Use;
use crate::recorder::Times;
use crate::rest::Rest;
use crate::schedule::{salt, think};

impl<D: Driver> Worker<D> {
    /// One iteration: one request, or all of a journey's. Returns the last request's number, when it was done, and
    /// whether it got no answer.
    pub(super) async fn walk(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: Seat,
        ticket: Ticket,
        scheduled: Instant,
    ) -> (u64, Instant, bool) {
        let course = &self.phase.courses[stream.index];
        let (steps, first) = (course.steps(), ticket.iteration * course.steps());
        let (mut done, mut refused) = self.request(stream, connection, seat, ticket, 0, scheduled).await;
        for step in 1..steps {
            let k = first + step;
            let scheduled = done + think(&course.thinks[step as usize - 1], &self.draw(stream, k - 1));
            self.sleep_until(scheduled).await;
            if self.is_over(stream, scheduled) {
                self.settle(stream, ticket, step as usize);
                return (k - 1, done, refused);
            }
            (done, refused) = self.request(stream, connection, seat, ticket, step as usize, scheduled).await;
        }
        (first + steps - 1, done, refused)
    }

    /// One request, from its scheduled instant to its record. Returns when it was done, and whether it got no answer.
    async fn request(
        &self,
        stream: &Stream,
        connection: &mut D::Connection,
        seat: Seat,
        ticket: Ticket,
        step: usize,
        scheduled: Instant,
    ) -> (Instant, bool) {
        let started = Instant::now();
        let course = &self.phase.courses[stream.index];
        let k = ticket.iteration * course.steps() + step as u64;
        let choice = self.pick(stream, k, step, ticket.uses);
        let draw = Draw {
            user: seat.client,
            number: choice.uses.map_or(0, |_| number_of(course, ticket, step)),
            settled: choice.reads.map_or(0, |counter| self.phase.counters[counter].settled()),
            ..self.draw(stream, k)
        };
        self.waiting.borrow_mut()[seat.place] = Some((choice.slot, scheduled));
        // Whether the phase has ended meanwhile is known only when the answer is there.
        let times = || Times { scheduled, started, ends: self.ends(stream) };
        let most = self.phase.plan.streams[stream.index].retries;
        let mut retries = 0;
        let (driver, context) = (&self.phase.driver, &self.phase.context);
        let mut rest = Rest::default();
        let reply = loop {
            let reply = driver.execute(connection, &choice.operation, context, &draw, rest.documents()).await;
            if retries == most || !Rest::may_pass(&reply) {
                break rest.settle(reply);
            }
            retries += 1;
            rest.after(&reply);
            self.recorder.borrow_mut().attempt(choice.slot, times(), reply, &self.waiting.borrow());
        };
        let done = reply.done;
        let failed = reply.outcome.as_ref().err();
        let refused = failed.is_some_and(|failure| failure.class == ErrorClass::Connect || reply.bytes_sent == 0);
        let end = &self.ends[stream.index];
        end.set(StreamEnd { last_done: end.get().last_done.max(done - self.start), ..end.get() });
        // The request stays in flight until it is recorded: it may be what shows that a second has ended.
        self.recorder.borrow_mut().request(choice.slot, times(), reply, &self.waiting.borrow());
        self.waiting.borrow_mut()[seat.place] = None;
        if let (Some(counter), Some(count)) = (choice.uses, &stream.count) {
            count.borrow_mut().settle(counter, draw.number, &self.phase.counters);
        }
        (done, refused)
    }

    /// Iteration `n` of a stream, which is this worker's, with the numbers that it takes of a counter.
    #[inline]
    pub(super) fn ticket(&self, stream: &Stream, n: u64) -> Ticket {
        let none = Use { group: 0, number: 0 };
        let uses = stream.count.as_ref().map_or(none, |count| count.borrow_mut().take(n, &self.phase.counters));
        Ticket { iteration: n, uses }
    }

    /// The requests of an iteration from `step` on will not be sent: the numbers that they took are settled.
    pub(super) fn settle(&self, stream: &Stream, ticket: Ticket, step: usize) {
        let Some(count) = &stream.count else { return };
        let course = &self.phase.courses[stream.index];
        let steps = course.steps();
        for step in step..steps as usize {
            if let Some(counter) = self.pick(stream, ticket.iteration * steps + step as u64, step, ticket.uses).uses {
                count.borrow_mut().settle(counter, number_of(course, ticket, step), &self.phase.counters);
            }
        }
    }

    #[inline]
    pub(super) fn draw(&self, stream: &Stream, k: u64) -> Draw {
        let iteration = k / self.phase.courses[stream.index].steps();
        Draw { iteration, ..Draw::new(self.phase.plan.seed, stream.key, k) }
    }

    #[inline]
    pub(super) fn pick(&self, stream: &Stream, k: u64, step: usize, uses: Use) -> &Choice<D> {
        let course = &self.phase.courses[stream.index];
        match (course.choices.as_slice(), course.groups.get(uses.group)) {
            ([only], _) => only,
            (steps, _) if !course.thinks.is_empty() => &steps[step],
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

/// The number that a step of an iteration takes: one more than the step before it that uses the counter, too.
fn number_of<D: Driver>(course: &Course<D>, ticket: Ticket, step: usize) -> u64 {
    // The choices of a mix are not steps: a mix has one step, the first.
    let before = course.choices.iter().take(if course.thinks.is_empty() { 0 } else { step });
    ticket.uses.number + before.filter(|choice| choice.uses.is_some()).count() as u64
}
