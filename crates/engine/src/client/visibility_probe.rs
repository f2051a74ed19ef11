//! Visibility probes: one client per source polls for acknowledged events until queries find them. Each query
//! covers all open probes of the kinds that one operation ingests.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use super::Worker;
use crate::driver::{Driver, ReplyPart};
use crate::ingest::Source;
use crate::ingest::probes::{NextProbes, Outcome};
use crate::pacing::schedule::Stride;
use crate::plan::Pacing;
use crate::recording::recorder::Times;

impl<D: Driver> Worker<D> {
    /// Queries the sampled events of stream number `index`, and records each query and each finished probe.
    /// Continues after the end of the stream until each probe is found or times out, so that late events are treated
    /// like the others.
    pub(super) async fn look_for_events(self: Rc<Self>, index: usize, source: Arc<Source>) {
        let Some(probes) = &source.probes else { return };
        let (phase, stream_plan) = (&self.phase, &self.phase.stream_plans[index]);
        let seat = self.seat(self.looker(index));
        let mut connection = phase.driver.connection(seat.client);
        let mut due = self.start;
        loop {
            let mut changed = std::pin::pin!(probes.changed());
            changed.as_mut().enable();
            match probes.next_probes(|_| true) {
                NextProbes::Ended => return,
                NextProbes::Nothing => {
                    changed.await;
                    due = due.max(Instant::now());
                    continue;
                }
                NextProbes::Events(_) => {}
            }
            self.timer.sleep_until(due).await;
            // The client sends the queries of several operations in turn: each is due at the end of the one before.
            let (mut next, mut scheduled) = (due, due);
            for choice in &stream_plan.choices {
                let covers = |kind| stream_plan.route(kind) == choice.number;
                // Include probes opened during the wait.
                let NextProbes::Events(batch) = probes.next_probes(covers) else { continue };
                let visible = choice.slot + phase.driver.parts(&choice.operation).len() + 2;
                let look = visible + 1;
                let started = Instant::now();
                self.waiting.borrow_mut()[seat.place] = Some((look, scheduled));
                let (reply, seen) =
                    phase.driver.look_for(&mut connection, &choice.operation, &phase.context, &batch).await;
                let done = reply.done;
                let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
                let ends = self.end_after(phase.plan.clock(index));
                let mut recorder = self.recorder.borrow_mut();
                recorder.request(
                    look,
                    Times { scheduled, started, ends, client: seat.client, trace: None },
                    reply,
                    &self.waiting.borrow(),
                );
                for Outcome { arrived, failed } in probes.record_query(covers, &seen, batch.events.len(), done, failed)
                {
                    let times = Times { scheduled: arrived, started, ends, client: seat.client, trace: None };
                    let part =
                        ReplyPart { name: 0, sent: arrived, done, documents: u64::from(failed.is_none()), failed };
                    recorder.part(visible, times, &part);
                }
                drop(recorder);
                self.waiting.borrow_mut()[seat.place] = None;
                (next, scheduled) = (done + probes.sampling.every, done);
            }
            due = next;
        }
    }

    /// Returns the client number of a stream's visibility probe; 0 for a stream without a source.
    /// It is the first number after the ingesting clients that belongs to this thread, so that it shares this thread's
    /// connections.
    fn looker(&self, stream: usize) -> u64 {
        let plan = &self.phase.plan;
        let Pacing::Source { workers, .. } = plan.streams[stream].pacing else { return 0 };
        let Stride { index, of } = Stride::new(plan.rank, plan.ranks, 0, plan.threads);
        index + workers.div_ceil(of) * of
    }
}
