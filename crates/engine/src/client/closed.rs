//! Closed-loop clients: each starts its next iteration after the previous one and its think time.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::request::Start;
use super::{Iteration, Stream, TURNS, Worker, back_off};
use crate::driver::Driver;
use crate::pacing::schedule::think;
use crate::plan::Think;
use crate::reactor;
use crate::workload::permuted_mix::permuted;

impl<D: Driver> Worker<D> {
    /// Sends requests as closed-loop client number `client`, until the stream, its requests or its last stretch ends.
    /// `stretches`: periods in which the client is active, seconds after the phase's start. `pacing`: minimum time
    /// between the starts of iterations; 0 for none. If the caller freezes the set of active clients, active ones go on
    /// and inactive ones end.
    pub(super) async fn closed(
        self: Rc<Self>,
        stream: Rc<Stream>,
        client: u64,
        stretches: Vec<(f64, f64)>,
        think_time: Think,
        pacing: Duration,
    ) {
        let mut connection = self.phase.driver.connection(client);
        let seat = self.seat(client);
        let permuted_mix =
            permuted(&self.phase.stream_plans[stream.index].permuted_mix, self.phase.plan.seed, stream.key, client);
        let mut round = permuted_mix.iter().copied().cycle();
        let mut turns = 0;
        let mut unsent = 0;
        let mut scheduled = self.start;
        for (from, to) in stretches {
            // The last request of the stretch before may have outlasted the pause.
            scheduled = scheduled.max(self.start + Duration::from_secs_f64(from));
            let mut present = false;
            let leaves = Duration::try_from_secs_f64(to).ok().and_then(|to| self.start.checked_add(to));
            loop {
                // Check before sleeping: a think time must not outlast the phase.
                if self.is_over(&stream, scheduled) {
                    return;
                }
                let mut started = Instant::now();
                if started < scheduled {
                    self.sleep_until(&stream, scheduled).await;
                    started = Instant::now();
                }
                if self.is_over(&stream, started) {
                    return;
                }
                let held = self.phase.held.load(Ordering::Relaxed);
                if held && !present {
                    return;
                }
                present = true;
                if !held && leaves.is_some_and(|leaves| scheduled >= leaves) {
                    break;
                }
                let Some(ticket) = self.next(&stream) else {
                    self.set_ran_out(stream.index, true);
                    return;
                };
                let ticket = Iteration { turn: round.next(), ..ticket };
                let start = Start::new(scheduled, started);
                let (k, done, was_sent) = self.walk(&stream, &mut connection, seat, ticket, start).await;
                let thought = think(&think_time, &self.draw(&stream, k));
                unsent = if was_sent { 0 } else { unsent + 1 };
                // The end of the stream cuts iterations short.
                let is_whole = (k + 1) % self.phase.stream_plans[stream.index].steps() == 0;
                let next = if is_whole { self.paced(&stream, scheduled, done, pacing) } else { done };
                scheduled = next.max(done + thought.max(back_off(unsent)));
                turns += 1;
                if turns % TURNS == 0 {
                    reactor::yield_now().await;
                }
            }
        }
    }

    /// Takes this worker's next iteration of a closed stream, with its counter numbers; `None` after the stream's
    /// last.
    fn next(&self, stream: &Stream) -> Option<Iteration> {
        let issued = stream.issued.get();
        stream.issued.set(issued + 1);
        let n = stream.share.index + issued * stream.share.of;
        self.phase.limits[stream.index].is_none_or(|limit| n < limit).then(|| self.ticket(stream, n))
    }
}
