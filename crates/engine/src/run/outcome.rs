//! The outcome of a phase that has ended: `outcome.json`.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::clock::Reading;
use crate::collector::{Slot, Totals};
use crate::corpus::Corpora;
use crate::driver::{Driver, ErrorClass};
use crate::phase::{Leftover, Phase, StreamEnd};
use crate::plan::{Stop, Stream};

use super::RUN_UP;

/// The phase's outcome: what the rows of its files do not say.
pub(super) fn describe<D: Driver>(
    phase: &Phase<D>,
    slots: &[Slot],
    totals: &Totals,
    leftover: &Leftover,
    clock: Reading,
    offset: Duration,
) -> Value {
    let plan = &phase.plan;
    let operations: Vec<Value> = slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.part.is_none())
        .map(|(index, slot)| {
            let [warmup, counts] = &totals.counts[index];
            let ages: Vec<f64> =
                leftover.in_flight.iter().filter(|(s, _)| *s == index).map(|(_, age)| age.as_secs_f64()).collect();
            json!({
                "stream": slot.stream,
                "operation": slot.operation,
                "requests": counts.requests,
                "successes": counts.successes,
                "documents": counts.documents,
                "completed": warmup.completed + counts.completed,
                "completed_documents": warmup.completed_documents + counts.completed_documents,
                "dropped": counts.dropped,
                "retries": counts.retries,
                "recall": (counts.relevant > 0)
                    .then(|| json!({"relevant": counts.relevant, "found": counts.relevant_found})),
                "warmup": {"requests": warmup.requests, "successes": warmup.successes, "documents": warmup.documents},
                "in_flight_at_end": ages.len(),
                "in_flight_oldest": ages.iter().copied().reduce(f64::max),
                "errors": totals.messages.iter().filter(|m| m.slot == index)
                    .map(|m| json!({"class": m.class.name(), "message": m.text})).collect::<Vec<_>>(),
            })
        })
        .collect();
    let parts = slots.iter().zip(&totals.counts).filter_map(|(slot, [warmup, counts])| {
        let part = slot.part?;
        Some(json!({
            "stream": slot.stream,
            "operation": slot.operation,
            "part": part,
            "requests": counts.requests,
            "successes": counts.successes,
            "documents": counts.documents,
            "completed": warmup.completed + counts.completed,
            "completed_documents": warmup.completed_documents + counts.completed_documents,
        }))
    });
    let stopped = phase.stop.load(Ordering::Relaxed);
    let start = clock.at + RUN_UP;
    let last_done = leftover.streams.iter().map(|end| end.last_done).max().unwrap_or_default();
    let measured_of = |index: usize, end: &StreamEnd| {
        let since_warmup = |instant: Duration| instant.saturating_sub(plan.warmup).as_secs_f64();
        let stopped = stopped.then(|| since_warmup(leftover.ended));
        let ended = phase.ended.get().map(|ended| since_warmup(ended.saturating_duration_since(start)));
        let cut = [stopped, ended].into_iter().flatten().reduce(f64::min);
        measured(phase.clock(index), since_warmup(end.last_done), end.ran_out, cut)
    };
    let streams: Vec<(&Stream, f64, bool)> = (plan.streams.iter().zip(&leftover.streams).enumerate())
        .map(|(index, (stream, end))| {
            let cut = end.ran_out && matches!(stream.stop, Stop::Duration(_));
            (stream, measured_of(index, end), cut)
        })
        .collect();
    let now = Reading::take();
    let wall = (clock.wall + RUN_UP).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    json!({
        "phase": plan.phase,
        "driver": plan.target.driver,
        "started": wall,
        "clock": {
            "uncertainty": clock.uncertainty.max(now.uncertainty).as_secs_f64(),
            "drift": now.drift(&clock),
        },
        "offset": offset.as_secs_f64(),
        "warmup": plan.warmup.as_secs_f64(),
        "measured": streams.iter().map(|(_, measured, _)| *measured).fold(0.0, f64::max),
        "last_done": last_done.as_secs_f64(),
        "interrupted": stopped && totals.stopped_by.is_none() && phase.failure.get().is_none(),
        "failed": phase.failure.get(),
        "stopped_by": totals.stopped_by.as_ref().map(|condition| json!({
            "metric": condition.metric, "above": condition.above, "seconds": condition.seconds})),
        "rank": plan.rank,
        "ranks": plan.ranks,
        "threads": plan.threads,
        "hosts": phase.driver.hosts(),
        "unreachable": phase.driver.unreachable().iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
        "streams": streams.iter().map(|(stream, measured, cut)| json!({
            "name": stream.name,
            "pacing": stream.pacing,
            "measured": measured,
            "ran_out": cut,
        })).collect::<Vec<_>>(),
        "operations": operations,
        "parts": parts.collect::<Vec<_>>(),
        "set_aside": set_aside(&phase.context.corpora),
        "error_classes": ErrorClass::ALL.map(ErrorClass::name),
    })
}

/// For how long a stream ran after the warm-up, s, which is what its requests per second are counted by. One that ends
/// by itself ran until its last answer at `last`; one that the clock, another stream or a user ends, until then.
fn measured(clock: Option<Duration>, last: f64, ran_out: bool, stopped: Option<f64>) -> f64 {
    let most = clock.map_or(f64::INFINITY, |clock| clock.as_secs_f64());
    match stopped {
        _ if ran_out => last.min(most),
        Some(stopped) => stopped.min(most),
        None if most.is_finite() => most,
        None => last,
    }
}

/// The corpora of which lines were kept aside.
fn set_aside(corpora: &Corpora) -> Vec<Value> {
    let told = corpora.iter().map(|(name, corpus)| (name, corpus.set_aside()));
    told.filter(|(_, (lines, _))| *lines > 0)
        .map(|(name, (lines, kept))| json!({"corpus": name, "lines": lines, "kept": kept}))
        .collect()
}

pub(super) fn write(path: &Path, outcome: &Value) -> Result<(), String> {
    let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::to_writer_pretty(file, outcome).map_err(|e| format!("{}: {e}", path.display()))
}
