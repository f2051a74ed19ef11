//! Outcome of a finished phase: `outcome.json`.

mod rank_outcome;
mod rank_share;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::driver::ErrorClass;
use crate::pacing::start_time::StartTime;
use crate::plan::{Plan, Stop, Stream};
use crate::recording::recorder::Message;
use crate::recording::slot::Slot;
use crate::recording::stream_end::StreamEnd;
use crate::recording::tally::Totals;
pub use rank_outcome::{RankOutcome, Unreachable};
pub use rank_share::{Clock, RankShare, Watch, measured};

/// Returns the phase's outcome: facts that are not in the rows of its files. `hosts`: in the order of their
/// numbers in the files. `part`: the outcome of this rank or, with `ranks`, the sum over all ranks. `ranks`: list the
/// shares of the ranks.
pub fn describe(
    plan: &Plan,
    slots: &[Slot],
    totals: &Totals,
    part: &RankOutcome,
    start_time: &StartTime,
    hosts: &[String],
    ranks: bool,
) -> Value {
    let operations: Vec<Value> = slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.part.is_none())
        .map(|(index, slot)| {
            let [warmup, counts] = &totals.counts[index];
            let (in_flight, oldest) = part.in_flight[index];
            json!({
                "stream": slot.stream,
                "operation": slot.operation,
                "of_several": slot.of_several,
                "requests": counts.requests,
                "successes": counts.successes,
                "documents": counts.documents,
                "completed": warmup.completed + counts.completed,
                "completed_documents": warmup.completed_documents + counts.completed_documents,
                "dropped": counts.dropped,
                "retries": counts.retries,
                "reconnects": counts.reconnects,
                "recall": (counts.relevant > 0)
                    .then(|| json!({"relevant": counts.relevant, "found": counts.relevant_found})),
                "kernel_timestamps": plan.kernel_timestamps
                    .then(|| json!({"without": counts.unstamped, "receive_only": counts.receive_only})),
                "warmup": {
                    "requests": warmup.requests,
                    "successes": warmup.successes,
                    "documents": warmup.documents,
                    "dropped": warmup.dropped,
                },
                "in_flight_at_end": in_flight,
                "in_flight_oldest": (in_flight > 0).then_some(oldest.as_secs_f64()),
                "inherited": warmup.completed,
                "errors": errors(totals, index),
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
    let last_done = part.streams.iter().map(|end| end.last_done).max().unwrap_or_default();
    let measured_of = |index: usize, end: &StreamEnd| {
        let since_warmup = |instant: Duration| instant.saturating_sub(part.warmup).as_secs_f64();
        let stopped = part.stopped.then(|| since_warmup(part.ended));
        let cut = [stopped, part.over.map(since_warmup)].into_iter().flatten().reduce(f64::min);
        lasted(plan.clock(index), since_warmup(end.last_done), end.ran_out, cut)
    };
    let streams: Vec<(&Stream, f64, bool, &StreamEnd)> = (plan.streams.iter().zip(&part.streams).enumerate())
        .map(|(index, (stream, end))| {
            let cut = end.ran_out && matches!(stream.stop, Stop::Duration(_));
            (stream, measured_of(index, end), cut, end)
        })
        .collect();
    let wall = start_time.wall.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut outcome = json!({
        "phase": plan.phase,
        "driver": plan.target.driver,
        "started": wall,
        "clock": {"uncertainty": part.clock.0, "drift": part.clock.1},
        "offset": start_time.offset.as_secs_f64(),
        "warmup": part.warmup.as_secs_f64(),
        "measured": streams.iter().map(|(_, measured, ..)| *measured).fold(0.0, f64::max),
        "last_done": last_done.as_secs_f64(),
        "interrupted": part.stopped && totals.stopped_by.is_none() && part.failed.is_none(),
        "failed": part.failed,
        "stopped_by": totals.stopped_by.as_ref().map(|condition| json!({
            "metric": condition.metric, "above": condition.above, "seconds": condition.seconds})),
        "rank": plan.rank,
        "ranks": plan.ranks,
        "threads": plan.threads,
        "hosts": hosts,
        "unreachable": part.unreachable.iter().map(|(host, who)| unreachable(host, who, ranks)).collect::<Vec<_>>(),
        "streams": streams.iter().map(|(stream, measured, cut, end)| json!({
            "name": stream.name,
            "pacing": stream.pacing,
            "group": stream.group(),
            "measured": measured,
            "ran_out": cut,
            "iterations": end.iterations,
            "overruns": end.overruns,
        })).collect::<Vec<_>>(),
        "operations": operations,
        "parts": parts.collect::<Vec<_>>(),
        "set_aside": part.set_aside.iter()
            .map(|(corpus, (lines, kept))| json!({"corpus": corpus, "lines": lines, "kept": kept})).collect::<Vec<_>>(),
        "sources": part.sources,
        "error_classes": ErrorClass::ALL.map(ErrorClass::name),
    });
    if ranks {
        outcome["by_rank"] = json!(part.by_rank);
    }
    outcome
}

/// Returns the failure messages of the operation at `slot` as objects: the messages of the measured segment, then
/// the others, each in descending order of count. The keys are `class`, `status`, `message`, `count` and `measured`.
fn errors(totals: &Totals, slot: usize) -> Vec<Value> {
    let mut messages: Vec<&Message> = totals.messages.iter().filter(|message| message.slot == slot).collect();
    messages.sort_by_key(|message| (!message.measured, std::cmp::Reverse(message.count)));
    let described = |Message { class, measured, status, text, count, .. }: &Message| json!({"class": class.name(), "status": status, "message": text, "count": count, "measured": measured});
    messages.into_iter().map(described).collect()
}

/// Returns the JSON of an unreachable host, with its ranks if the outcome is a sum over `ranks`.
fn unreachable(host: &str, who: &Unreachable, ranks: bool) -> Value {
    match ranks {
        true => json!({"host": host, "why": who.why, "ranks": who.ranks, "of": who.of}),
        false => json!({"host": host, "why": who.why}),
    }
}

/// Returns the duration of a stream after the warm-up, s, as the basis of its throughput. A stream that ran out
/// (`ran_out`) lasted until its last answer at `last`; otherwise until the clock, another stream or a user ended it.
/// `clock`: its planned end. `stopped`: when another stream or a user ended it. Times are after the warm-up.
fn lasted(clock: Option<Duration>, last: f64, ran_out: bool, stopped: Option<f64>) -> f64 {
    let most = clock.map_or(f64::INFINITY, |clock| clock.as_secs_f64());
    match stopped {
        _ if ran_out => last.min(most),
        Some(stopped) => stopped.min(most),
        None if most.is_finite() => most,
        None => last,
    }
}

/// Writes an outcome to the file `path`, as indented JSON. The error names the file.
pub fn write(path: &Path, outcome: &Value) -> Result<(), String> {
    let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::to_writer_pretty(file, outcome).map_err(|e| format!("{}: {e}", path.display()))
}
