//! Replaces a closed index by a copy with fewer shards.

use loadframe_engine::driver::{ErrorClass, Reply};
use serde_json::{Value, json};

use super::round::{Failed, Round};
use super::{BLOCKED, Managing, SHRINK, Shrink, StoredIndices};
use crate::exchanges::PartStart;
use crate::http1::Connection;
use crate::http1::request::{Body, Request, RequestHead};
use crate::search::answer::Judge;
use crate::search::index::{Index, SHRUNK};
use crate::search::operation::shrink;
use crate::search::operation::shrink::BLOCK;
use crate::search::request::SearchStep;

impl Managing {
    /// Shrinks the indices of generations that ended long enough before `now`, and merges their segments.
    /// Long enough: the form's `after`. `now` is in milliseconds since 1970. Leaves out indices that are
    /// shrunk, have no more shards than wanted, or are to be deleted. Records failures in `round`, and continues.
    pub(super) async fn make_smaller<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        stored: &StoredIndices,
        now: i64,
    ) {
        let Some(form) = &self.shrink else { return };
        let deleted = self.keep.map_or(i64::MIN, |keep| now - keep);
        let due = |index: &&Index| {
            let end = self.end(index);
            !index.shrunk && index.shards > form.shards && end - 1 <= now - form.after && end > deleted
        };
        for index in stored.indices.iter().filter(due) {
            let (began, mut blocked) = (round.exchanges.begin(), None);
            let target = format!("{SHRUNK}{}", index.name);
            let there = stored.unfinished.contains(&target);
            let mut outcome = self.replace(round, index, &target, (form, there), &mut blocked).await;
            if let Some(blocked) = blocked {
                round.note(BLOCKED, blocked, &outcome);
            }
            if let (Ok(()), Some(segments)) = (&outcome, form.segments) {
                let path = format!("/{target}/_forcemerge?max_num_segments={segments}");
                outcome = match RequestHead::new("POST", round.values.variables).path(&path) {
                    Ok(line) => round.ask(&SearchStep::new(line.finish(Body::None), Judge::ON_SHARDS)).await,
                    Err(error) => round.refuse(error),
                };
            }
            round.note(SHRINK, began, &outcome);
        }
    }

    /// Replaces `index` by `target`, an index with the same documents and fewer shards.
    /// `target` gets the aliases of `index`, and its generation's name as an alias. `there`: `target` exists, complete
    /// or not. Sets `blocked` when the write block starts. After a failure, allows writes again, unless the store may
    /// still execute the replacement.
    async fn replace<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        index: &Index,
        target: &str,
        (form, there): (&Shrink, bool),
        blocked: &mut Option<PartStart>,
    ) -> Result<(), Failed> {
        // A complete copy was left by a process that ended before it deleted the original.
        let complete = there && index.blocked;
        if !complete {
            if there {
                round.send("DELETE", &[target], None, Judge::Absent).await?;
            }
            // The new index does not inherit the number of replicas.
            let mut settings = json!({"index.number_of_replicas": index.replicas});
            for (name, value) in form.settings.as_object().into_iter().flatten() {
                settings[name] = value.clone();
            }
            let steps = shrink::steps(&self.dialect, round.values.variables, &index.name, target, Some(&settings));
            let steps = steps.or_else(|error| round.refuse(error).map(|()| Vec::new()))?;
            for (number, step) in steps.iter().enumerate() {
                if number == BLOCK {
                    *blocked = Some(round.exchanges.begin());
                }
                if let Err(failed) = round.ask(step).await {
                    self.reopen(round, index).await;
                    return Err(failed);
                }
                if let Some(keep) = &step.keep {
                    let (answer, carried) = round.connection.carry();
                    carried.clear();
                    carried.extend_from_slice(keep.find(answer.body()).ok().flatten().unwrap_or(b"null"));
                }
            }
        }
        if let Err(failed) = self.compare(round, index, target).await {
            self.reopen(round, index).await;
            return Err(failed);
        }
        let name = self.generations.name(index.begin);
        let aliases = index.aliases.iter().map(|(alias, described)| {
            let mut add = described.clone();
            (add["index"], add["alias"]) = (target.into(), alias.as_str().into());
            json!({ "add": add })
        });
        let actions = [json!({"remove_index": {"index": index.name}})].into_iter().chain(aliases);
        let actions: Vec<Value> = actions.chain([json!({"add": {"index": target, "alias": name}})]).collect();
        let swapped = round.send("POST", &["_aliases"], Some(json!({ "actions": actions })), Judge::DONE).await;
        if swapped.is_err() && !round.exchanges.last().is_some_and(ErrorClass::may_pass) {
            self.reopen(round, index).await;
        }
        // Otherwise the store may still execute it; the next round checks.
        swapped
    }

    /// Waits until `target` is ready, and refreshes both indices. Fails unless `target` has as many documents as
    /// `index`.
    async fn compare<S: FnMut(&Connection, &Request, &Reply)>(
        &self,
        round: &mut Round<'_, S>,
        index: &Index,
        target: &str,
    ) -> Result<(), Failed> {
        match shrink::ready(round.values.variables, target) {
            Ok(ready) => round.ask(&ready).await?,
            Err(error) => round.refuse(error)?,
        }
        let mut counts = [0; 2];
        for (count, name) in counts.iter_mut().zip([index.name.as_str(), target]) {
            round.send("POST", &[name, "_refresh"], None, Judge::ON_SHARDS).await?;
            round.send("GET", &[name, "_count"], None, Judge::Count).await?;
            match round.answer()?["count"].as_u64() {
                Some(said) => *count = said,
                None => round.fail(format!("the store does not say how many documents {name} has"))?,
            }
        }
        let [before, after] = counts;
        if before == after {
            return Ok(());
        }
        round.fail(format!("{} has {before} documents, and its copy {target} has {after}", index.name))
    }

    /// Removes the write block and the node restriction of an index in the store. Continues after a failure, which
    /// `round` records.
    async fn reopen<S: FnMut(&Connection, &Request, &Reply)>(&self, round: &mut Round<'_, S>, index: &Index) {
        // If this fails too, the next round starts over. Until then, events for the index are retried.
        let _ = round.send("PUT", &[&index.name, "_settings"], Some(shrink::open()), Judge::DONE).await;
    }
}
