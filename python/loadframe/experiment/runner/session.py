"""A session on one cluster: prepares its data and records runs of phases."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from loadframe.analyze.failures import failed_changes
from loadframe.analyze.finding import Finding
from loadframe.analyze.summary import summarize
from loadframe.analyze.verdict.rules import CHECK_FAILED, COPIES_LOST, documents_lost
from loadframe.base import folders, interrupts
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.event_kinds import PHASE_ENDED, PHASE_STARTED
from loadframe.base.units import counted
from loadframe.base.untrusted import without_compressed
from loadframe.cluster import Cluster
from loadframe.cluster.events import ClusterEvent
from loadframe.experiment.runner import node_samplers
from loadframe.experiment.runner.document_counts import (
    COUNT_PAUSE,
    EVICTED,
    WITHOUT_ACKNOWLEDGEMENT,
    AcknowledgedDocuments,
    EventCount,
    retries_of_warmup,
    unacknowledged,
    unanswered_documents,
    uncounted,
    written_content,
)
from loadframe.experiment.runner.ingest import (
    damage_error,
    with_dead_letter_files,
    with_dead_letter_names,
    with_limits,
    with_spill_folder,
)
from loadframe.experiment.runner.listener import Labels, Listener, RunHook
from loadframe.experiment.runner.preflight import wait_until_ready
from loadframe.experiment.runner.window import WindowControl
from loadframe.load import (
    Calibration,
    Closing,
    Generator,
    Outcome,
    PhaseFailed,
    Progress,
    present,
    run_phase,
)
from loadframe.observe import (
    HealthSampler,
    Observer,
    OwnGroupSampler,
    Sampler,
    SourcesSampler,
    hidden_processes,
    yardstick,
)
from loadframe.record import ManifestDraft, RunWriter
from loadframe.workload import ResolvedPhase, ResolvedWorkload
from loadframe.workload.collection_use import may_change_number, warms, without_prefix

#: Operations that tidy a collection's files or show new documents, and leave the documents alone.
_TIDYING = {"force_merge", "flush", "refresh"}
#: Statuses of a service that lacks or forbids an interface.
_NOT_OFFERED = {401, 403, 404, 405, 410}
#: Kind of the event with a difference of counts.
_DIFFER = "documents differ"
#: Entry of the verdict on a cluster that Loadframe did not start.
_UNSEEN = "other programs on the nodes' machines: Loadframe did not start the nodes"

T = TypeVar("T")


def _draws(seed: int, labels: Labels) -> str:
    """Return the seed and the treatment as JSON text: the seed for the service times of a simulated store."""
    return json.dumps([seed, dict(labels.treatment)], sort_keys=True, default=str)


@dataclass(frozen=True)
class DroppedData:
    """The data that dropping collections will delete."""

    documents: Mapping[str, int | None]  #: number by collection; None if the store cannot count
    product: str  #: kind and version of the store
    addresses: Sequence[str]


class Session:
    """One workload on one cluster, with one seed and one load generator."""

    def __init__(
        self,
        cluster: Cluster,
        workload: ResolvedWorkload,
        *,
        seed: int,
        generator: Generator,
        listener: Listener,
        allow_bad: bool | None = None,
    ) -> None:
        """Create a session, and read this machine's calibration, if any; nothing is sent to the cluster.

        With `allow_bad`, unavailable data does not invalidate a run, and no phase waits for it; None if the user cannot
        choose it.
        """
        self.cluster = cluster
        self._allow_bad = allow_bad
        #: Cluster states that `allow_bad` accepted, as sentences in order; a dict used as an ordered set.
        self._allowed: dict[str, None] = {}
        self.workload = workload
        self.seed = seed
        self.generator = generator
        #: By phase, network paths and the assignment of clients to nodes, with `spread: nearest`.
        self._nearest: dict[str, Any] = {}
        self.listener = listener
        calibration = Calibration.load(folders.cache())
        #: Maximum requests per second of one worker, from calibration, or None without calibration.
        self._ceiling = calibration.ceiling(cluster.store.driver) if calibration else None
        reasons = {name: cluster.store.removes_documents(part) for name, part in workload.collections.items()}
        #: Why the store removes documents, by collection; their numbers cannot be compared.
        self._removing = {name: why for name, why in reasons.items() if why is not None}
        self._acknowledged = AcknowledgedDocuments(
            new_ids=cluster.store.new_ids, blind_writes=cluster.store.blind_writes, uncountable=self._removing
        )
        #: Effects of preparing operations that the service refused, as sentences.
        self._refused: list[str] = []
        #: Collections whose index the store had at the last look.
        self._indexed: set[str] = set()
        #: Evicted documents by node, before the collections were created.
        self._evictions: dict[str, int] = {}
        self._sources = SourcesSampler()

    def create_collections(
        self, *, replace: bool = False, confirm: Callable[[DroppedData], None] | None = None
    ) -> None:
        """Create the workload's collections; with `replace`, first drop existing ones with their data.

        `confirm` is called before anything is dropped, and raises to refuse. BadInput if a collection exists and
        `replace` is off; LoadframeError on failure. From here on, documents in these collections are counted.
        """
        existing = [name for name in self.workload.collections if self.cluster.has_collection(name)]
        if existing and not replace:
            raise BadInput(
                f"the cluster already has {', '.join(existing)}",
                remedy="use --replace to drop and refill it, or --reuse to keep its data and skip the preparing phases",
            )
        if existing and confirm:
            confirm(self._dropped_data(existing))
        for name in existing:
            self.listener.step(f"dropping {name}")
            self.cluster.drop_collection(name)
        self._evictions = self.cluster.evictions()
        for name, definition in self.workload.collections.items():
            self.listener.step(f"creating {name}")
            self.cluster.create_collection(name, definition)
            self._acknowledged.created(name)
        self._indexed = self.cluster.store.indexed(self.cluster.addresses) & set(self.workload.collections)

    def _dropped_data(self, collections: Sequence[str]) -> DroppedData:
        """Describe collections that are about to be dropped; a count is None if it fails. This drops nothing."""
        documents: dict[str, int | None] = {}
        for name in collections:
            try:
                documents[name] = self.cluster.count(name)
            except LoadframeError:
                # The count is only shown to the user, so a failure does not prevent the drop.
                documents[name] = None
        kind, version = self.cluster.store.kind, str(self.cluster.describe()["version"])
        return DroppedData(documents, f"{kind} {version}", self.cluster.addresses)

    def prepare(self, phases: Sequence[ResolvedPhase], folder: Path) -> None:
        """Run phases that fill or warm the store, without a run; LoadframeError if requests fail or data is lost.

        In a phase that only warms, one success of each operation suffices. Data is lost if the store's count differs
        from the acknowledged documents. The engine writes to `folder`. KeyboardInterrupt if an interrupt ends a phase.
        """
        for phase in phases:
            self._await_ready(phase)
            outcome = self._phase(phase, folder)
            if outcome["interrupted"]:
                raise KeyboardInterrupt
            for aside in outcome["set_aside"]:
                kept = ", ".join(aside["kept"])
                self.listener.remark(
                    f"skipped {counted(aside['lines'], 'line')} of {aside['corpus']} without a document; see {kept}"
                )
            if missing := damage_error(phase, outcome) or self._preparation_error(phase, outcome):
                raise missing
            for difference in self._differences(phase, outcome, folder):
                raise _incomplete_error(difference, phase)

    def record(
        self,
        parent: Path,
        run_id: str,
        phases: Sequence[ResolvedPhase],
        labels: Labels,
        *,
        keep_interrupted: bool = False,
        closing: Closing | None = None,
        hook: RunHook | None = None,
    ) -> Path:
        """Record a run of the phases in `parent/run_id` and return its folder.

        An interrupt leaves no folder, or with `keep_interrupted` a run with status `interrupted`, and raises
        KeyboardInterrupt. After the last phase, an interrupt has no effect. With `closing`, the first interrupt of a
        measured ingest phase ends it normally; see `run_phase`. If the generator (PhaseFailed), the hook or a preparing
        phase fails, the data measured so far is kept in a run with status `failed`, and the error is raised.
        """
        hook = hook or RunHook()
        with interrupts.deferred(), RunWriter(parent, run_id) as writer:
            manifest = self._manifest(run_id, writer, phases, labels)
            writer.draft(manifest)
            self.listener.recording(writer)
            if hub := present():
                hub.recording(writer.folder)
            pace = [yardstick()]
            # Wait first: a store may still assign copies of collections that the preparation created.
            self._await_ready(phases[0], begins=True)
            self.cluster.begin_run(_draws(self.seed, labels))
            deviations, meanwhile = self._deviations(), list[str]()
            failures: list[Finding] = []
            interrupts.check()
            outcomes: list[Outcome] = []
            events = EventCount(self.cluster, phases, self._removing)
            samplers, on = self._samplers(health=hook.disturbs), node_samplers.source_machine_lookup(self.cluster)
            with (
                self.cluster.telling(_event_writer(writer)),
                self.cluster.telling(events.changed),
                Observer(samplers, writer, on),
                _running(hook, writer, deviations),
            ):
                failure: LoadframeError | None = self._measure(
                    phases, writer, hook, outcomes, meanwhile, failures, events, closing
                )
            failure = _unless_cancelled(failure or hook.failure())
            over = failure is None and len(outcomes) == len(phases) and not outcomes[-1]["interrupted"]
            if not (over or failure or (keep_interrupted and outcomes)):
                raise KeyboardInterrupt
            if self._allow_bad:
                manifest["store"]["allowed"] = list(self._allowed)
            if self._nearest:
                manifest["generator"]["nearest"] = self._nearest
            manifest["hardware"]["yardstick"] = [*pace, yardstick()]
            lost: list[str] = []
            if hook.disturbs:
                deviations += [text for text in self.cluster.unplanned_deviations() if text not in deviations]
            else:
                since = [text for text in self._deviations() if text not in deviations]
                lost = [text for text in self.cluster.losses() if text not in deviations] if since else []
                # The store is to blame for replicas that it lost under load.
                copies = self.cluster.lost_copies() if since and not lost else []
                failures += [COPIES_LOST(loss=text) for text in copies if text in since]
                meanwhile += [text for text in since if text not in copies]
            # Other deviations are consequences of the loss.
            deviations += [] if lost else meanwhile
            stored = self._try_count(lambda: events.end(outcomes)) if over and events.begun else None
            joined = writer.join()
            told = sorted(joined.events, key=itemgetter("time"))
            judged = summarize(
                joined.series,
                joined.histograms,
                outcomes,
                joined.telemetry,
                deviations,
                self._ceiling,
                cpus=manifest["hardware"]["threads"],
                lost=lost,
                disturbed=hook.disturbs,
                events=told,
                stored=stored or (),
                not_judged=self._not_judged(phases, told),
                failures=[*failures, *failed_changes(told)],
                failure=failure.what if failure and failure.fault == "generator" else None,
            )
            status = "done" if over else "failed" if failure else "interrupted"
            summary = replace(
                judged,
                status=status,
                failure=failure.what if failure else None,
                fault=failure.fault if failure else None,
            )
            path = writer.finish(manifest, summary.as_dict())
        if failure:
            failure.where = str(path)
            raise failure
        if not over:
            raise KeyboardInterrupt
        return path

    def _measure(
        self,
        phases: Sequence[ResolvedPhase],
        writer: RunWriter,
        hook: RunHook,
        outcomes: list[Outcome],
        deviations: list[str],
        failures: list[Finding],
        events: EventCount,
        closing: Closing | None,
    ) -> LoadframeError | None:
        """Run the phases, then the hook's `after`, until one is interrupted or fails; return the error of a failed one.

        None without an error, also after an interrupt. Writes phases and events to `writer`. Appends to `outcomes`
        (also of the phase that ended early), `deviations` (of the cluster) and `failures` (lost documents and failed
        checks). LoadframeError if the cluster is not ready or `after` fails.
        """
        for phase in phases:
            failure = None
            self._await_ready(phase)
            if phase.sources and events.begun is None:
                # Not earlier: phases that prepare may remove documents.
                self._try_count(events.begin)
            folder = writer.phase(phase.name, writer.elapsed(), self.cluster.addresses)
            gains = self._acknowledged.gains(phase.operations, phase.corpora)
            growth = {"held": self._acknowledged.held, "gains": gains}

            def started(
                start: float, phase: ResolvedPhase = phase, folder: Path = folder, growth: dict[str, Any] = growth
            ) -> None:
                """Record the start of the phase, and call the hook."""
                begun = {"phase": phase.name, "start": start, **growth}
                writer.begun(folder, begun | self.generator.taking_part())
                writer.event(PHASE_STARTED, start, phase=phase.name)
                hook.phase(start, phase.longest_warmup)

            one_journey = phase.stop == {"journeys": 1}
            extra = {**growth, "looks": phase.visibility_probes, "one_journey": one_journey}
            try:
                outcome = self._phase(
                    phase,
                    folder,
                    began=writer.began,
                    hook=hook,
                    started=started,
                    kept=writer.folder,
                    closing=closing if phase.sources and not (phase.prepares or phase.finishes) else None,
                    events=events,
                )
            except KeyboardInterrupt:
                # The interrupt came before the load started.
                return None
            except PhaseFailed as error:
                outcome, failure = error.outcome, error
            writer.event(PHASE_ENDED, phase=phase.name)
            self._sources.tell({})
            events.ended(outcome)
            extra["sources"] = with_limits(with_dead_letter_names(outcome, writer.folder), phase.sources)
            outcomes.append(outcome | {"prepares": phase.prepares or phase.finishes, **extra})
            failed = failure or damage_error(phase, outcome)
            if failed or outcome["interrupted"]:
                return failed
            missing = self._preparation_error(phase, outcome) if phase.prepares or phase.finishes else None
            if missing and not phase.finishes:
                return missing
            if missing:
                failures.append(CHECK_FAILED(phase=phase.name, what=missing.what))
            # With a hook that stops nodes, unreachable nodes are expected.
            for host in () if hook.disturbs else outcome["unreachable"]:
                deviations.append(f"cannot connect to {host['host']}: {host['why']}")
            for difference in self._differences(phase, outcome, folder):
                writer.event(_DIFFER, phase=phase.name, difference=difference)
                self.listener.remark(difference)
                if lost := documents_lost(difference):
                    failures.append(lost)
                elif phase.prepares or not difference.endswith((WITHOUT_ACKNOWLEDGEMENT, EVICTED)):
                    deviations.append(difference)
            # After the last phase, an interrupt has no effect: the run counts as done.
            if interrupts.pending() and len(outcomes) < len(phases):
                return None
        hook.after()
        return None

    def _preparation_error(self, phase: ResolvedPhase, outcome: Outcome) -> LoadframeError | None:
        """Return the error of a phase with failed requests, dropped writes or unacknowledged events; None if complete.

        Failures of its warm-up count, too. In a phase that only warms, one success of the operation suffices. Managed
        services refuse `force_merge`, `flush` and `refresh`: that is noted in `_refused` without an error.
        """
        for name, source in outcome.get("sources", {}).items():
            if source["left_over"]:
                return _incomplete_error(
                    f"{counted(source['left_over'], 'event')} of {name} were not acknowledged", phase
                )
        for operation in outcome["operations"]:
            name, errors, warmup = operation["operation"], operation["errors"], operation["warmup"]
            dropped = operation["dropped"] + warmup.get("dropped", 0)
            # Dropped reads leave the data complete.
            if dropped and written_content(phase.operations.get(name, {})):
                words = f"{counted(dropped, 'request')} of {name} were dropped: too many were in flight"
                return _incomplete_error(words, phase)
            failed = sum(counts["requests"] - counts["successes"] for counts in (operation, warmup))
            failed += operation["in_flight_at_end"]
            if not failed:
                continue
            words = "".join(f": {without_compressed(error['message'])}" for error in errors[:1])
            if errors and _is_refused(phase.operations[name], errors):
                self._refused.append(f"effect of {name}: the service refused it{words}")
                self.listener.remark(f"{name} had no effect: the service refused it{words}")
            elif warms(phase) and operation["successes"] + warmup["successes"]:
                # The data is complete, and the runs judge their own failures.
                self.listener.remark(f"phase {phase.name}: {counted(failed, 'request')} of {name} failed{words}")
            else:
                return _incomplete_error(f"{counted(failed, 'request')} of {name} failed{words}", phase)
        return None

    def _not_judged(self, phases: Sequence[ResolvedPhase], events: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return phrases on facts that the verdict does not cover, such as statistics that a service hides.

        Also refused operations, unseen programs, nodes without requests, and losses of documents that cannot be judged.
        `events` are the run's, with the differences of counts.
        """
        hidden = self.cluster.store.hidden
        unnamed = self.cluster.unnamed_nodes()
        unseen = [] if any(node.folder for node in self.cluster.nodes) else [_UNSEEN]
        here = any(node.pid and (node.machine is None or node.machine.here) for node in self.cluster.nodes)
        if here and (why := hidden_processes()):
            unseen.append(f"some programs on this machine: {why}")
        words = [f"{' and '.join(hidden)}: the service does not show them"] if hidden else []
        lost = [f"lost documents in {name}: {why} removes documents" for name, why in self._removing.items()]
        differences = [event["difference"] for event in events if event["kind"] == _DIFFER]
        lost += [f"lost documents: {text}" for text in differences if text.endswith(EVICTED)]
        missing = [f": {text}" for text in differences if text.endswith(WITHOUT_ACKNOWLEDGEMENT)]
        if missing or any(unacknowledged(form) for phase in phases for form in phase.operations.values()):
            unreported = "failed and lost writes: the store does not report those of write_concern: unacknowledged"
            lost += [unreported + text for text in missing or [""]]
        return [*words, *self._refused, *unseen, *([f"nodes without requests: {unnamed}"] if unnamed else []), *lost]

    def _try_count(self, count: Callable[[], T]) -> T | None:
        """Return the result of `count`; on failure, report a remark and return None."""
        try:
            return count()
        except LoadframeError as error:
            self.listener.remark(uncounted(error))
            return None

    def _samplers(self, *, health: bool) -> list[Sampler]:
        """Return the samplers of a run: generator, sources, nodes and, with `health`, the cluster's health."""
        health_samplers = [HealthSampler(self.cluster.health)] if health else []
        return [*health_samplers, OwnGroupSampler(), self._sources, *node_samplers.samplers(self.cluster)]

    def _manifest(
        self, run_id: str, writer: RunWriter, phases: Sequence[ResolvedPhase], labels: Labels
    ) -> dict[str, Any]:
        """Return the manifest of a run of these phases as JSON values."""
        return ManifestDraft(
            run=run_id,
            started=writer.started,
            treatment=labels.treatment,
            block=labels.block,
            repetition=labels.repetition,
            # With the levels of the treatment or of the options.
            workload={
                **self.workload.describe(),
                "phases": without_prefix([phase.describe() for phase in phases], self.workload.prefix),
            },
            store=self.cluster.describe(),
            seed=self.seed,
            generator={**self.generator.describe(), "ceiling": self._ceiling},
        ).as_dict()

    def _phase(
        self,
        phase: ResolvedPhase,
        folder: Path,
        *,
        began: float | None = None,
        hook: RunHook | None = None,
        started: Callable[[float], None] | None = None,
        kept: Path | None = None,
        events: EventCount | None = None,
        closing: Closing | None = None,
    ) -> Outcome:
        """Run one phase to its end, and return the outcome; `folder` is the phase's.

        `began` is the start of the run, s of the monotonic clock; `started` is called with the start of the load, s
        since then. A failure of the hook ends the phase early, without an error: the caller must ask the hook. With
        `kept`, the latest answers and dead letters are written to that folder, and samples, if on, are kept. `events`
        gets the progress, and `closing` ends sources after an interrupt. PhaseFailed if the load fails.
        """
        plan = phase.plan(
            seed=self.seed,
            hosts=self.cluster.addresses,
            driver=self.cluster.store.driver,
            threads=self.generator.threads,
            began=began,
            target={**self.generator.target(), **self._homes(phase), **self.cluster.target()},
        )
        if self.generator.spin:
            plan["spin"] = True
        if self.generator.samples and kept is not None:
            plan["samples"] = True
        plan |= {**self.generator.tracing(), **self.generator.timestamping()}
        for name, source in phase.sources.items():
            if "wait" in source:
                self.listener.step(f"waiting for the first line of {name} at {source['listen']['address']}")
        plan = with_spill_folder(plan, folder)
        self.listener.phase(phase.name, phase.longest_warmup + phase.duration if phase.duration else None)

        def tell(progress: Progress) -> None:
            """Pass the progress to listener, sampler, events and hook; KeyboardInterrupt if the hook has failed."""
            self.listener.progress(progress)
            self._sources.tell(
                {
                    name: {
                        **asdict(source),
                        "unacknowledged": source.unacknowledged,
                        "stdin": "stdin" in phase.sources[name],
                    }
                    for name, source in progress.sources.items()
                }
            )
            if events:
                events.progress(progress)
            if hook:
                hook.progress(progress)
                if hook.failure():
                    # Ends the phase; `record` then reads the error from the hook.
                    raise KeyboardInterrupt

        answers = LatestAnswers()

        def answered(name: str, answer: bytes) -> None:
            """Keep the answer for the run's folder, and pass it to the listener with its chart."""
            answers.keep(name, answer)
            self.listener.answer(name, phase.charts[name], answer)

        held = hook.held if hook else None
        window = WindowControl(phase, folder, self.listener.step) if phase.adjustable else None
        addresses, cores = (lambda: self.cluster.addresses), self.cluster.cores_left
        outcome = run_phase(
            plan if kept is None else with_dead_letter_files(plan, kept),
            folder,
            tell,
            hosts=addresses,
            held=held,
            cores=cores,
            started=started,
            ranks=self.generator.members(),
            answered=answered,
            closing=closing,
            window=window,
            measuring=self.listener.measuring,
        )
        if window:
            outcome["window"] = window.result
        if kept is not None:
            answers.write(kept, phase.name)
        return outcome

    def _homes(self, phase: ResolvedPhase) -> dict[str, Any]:
        """Return the part of the plan with the node of each client, `homes`, with `spread: nearest`; empty otherwise.

        Measures round trips, or repeats the assignment in `generator.nearest_as`; stores it for the manifest.
        """
        if self.generator.spread != "nearest":
            return {}
        from loadframe.load.nearest import Nearest

        ranks, hosts, threads = self.generator.members(), self.cluster.addresses, self.generator.threads
        closed = [int(stream.clients) for stream in phase.streams if isinstance(stream.clients, int | float)]
        clients = max(closed, default=threads * max(len(ranks), 1) * len(hosts))
        nearest = Nearest.measure(hosts, ranks, clients, threads)
        if known := (self.generator.nearest_as or {}).get(phase.name):
            nearest = Nearest.again(known, hosts, ranks)
        self._nearest[phase.name] = nearest.describe(threads)
        return {"homes": nearest.homes(threads)}

    def _await_ready(self, phase: ResolvedPhase, begins: bool = False) -> None:
        """Wait for the cluster as the phase's `ready_within` asks, unless `allow_bad`; StoreFailed on timeout.

        If a run `begins`, wait also without `ready_within`, for up to `preflight.SETTLING` s and without an error.
        """
        if (begins or phase.ready_within is not None) and not self._allow_bad:
            acceptable = self._allow_bad is not None
            wait_until_ready(self.cluster, phase.name, phase.ready_within, self.listener, acceptable=acceptable)

    def _deviations(self) -> list[str]:
        """Return the deviations of the cluster from its specification, and lost indexes, one sentence each.

        With `allow_bad`, unready states are stored in `_allowed` instead, with a remark the first time.
        """
        differs, unready = self.cluster.differences()
        differs += self._lost_indexes()
        if not self._allow_bad:
            return differs + unready
        for state in unready:
            if state not in self._allowed:
                self.listener.remark(f"{state}; accepted as requested")
            self._allowed[state] = None
        return differs

    def _lost_indexes(self) -> list[str]:
        """Return a sentence for each collection whose index the store had in this session, and no longer has.

        Empty if the store does not answer. Remembers the indexes that it sees.
        """
        try:
            known = self.cluster.store.indexed(self.cluster.addresses)
        except LoadframeError:
            # A cluster that does not answer has other findings.
            return []
        self._indexed |= known & set(self.workload.collections)
        return [f"the index of {name} is incomplete: the store has evicted it or its definition, or another client has"
                " deleted it" for name in sorted(self._indexed - known)]  # fmt: skip

    def _differences(self, phase: ResolvedPhase, outcome: Outcome, folder: Path) -> list[str]:
        """Add the acknowledged documents of a phase to the counts; return sentences on differences from the store's.

        Only collections written by a phase that sends a whole corpus or source are compared. Counts become unknown
        after an operation with unknown changes. `folder` is the phase's.
        """
        written = set()
        failed = phase.longest_warmup and any(operation["errors"] for operation in outcome["operations"])
        retries = retries_of_warmup(folder) if failed else Counter[tuple[str, str]]()
        for operation in outcome["operations"]:
            # Parts of an operation have no form; they are counted with the operation.
            form = phase.operations.get(operation["operation"], {})
            documents = operation["documents"] + operation["warmup"]["documents"]
            if form and not form.get("target") and written_content(form) is None and may_change_number(form):
                self._acknowledged.forget()
            warmup_retries = retries[operation["stream"], operation["operation"]]
            unanswered = unanswered_documents(form, operation, warmup_retries)
            written.add(self._acknowledged.add(form, documents, phase.corpora, unanswered=unanswered))
        if not phase.exhausts:
            return []
        differences = (self._count_difference(name) for name in sorted(filter(None, written)))
        return [difference for difference in differences if difference is not None]

    def _count_difference(self, name: str) -> str | None:
        """Return a sentence if a collection's acknowledged and counted documents differ, or None if equal or unknown.

        Counts again until they agree, up to the store's `count_lag`, or until an interrupt. Names evictions.
        """
        counted_at = time.monotonic()
        while self._acknowledged.difference(name, stored := self.cluster.count(name)):
            evicted = 0
            for node, count in self.cluster.evictions().items():
                before = self._evictions.get(node, 0)
                # A restarted node counts from 0.
                evicted += count - before if count >= before else count
            difference = self._acknowledged.difference(name, stored, evicted)
            if interrupts.pending() or time.monotonic() - counted_at >= self.cluster.store.count_lag:
                return difference
            time.sleep(COUNT_PAUSE)
        return None


@contextlib.contextmanager
def _running(hook: RunHook, writer: RunWriter, deviations: list[str]) -> Iterator[None]:
    """Begin the hook, and end it after the block in any case; append its deviations to `deviations`."""
    hook.begin(writer)
    try:
        yield
    finally:
        deviations += hook.end()


def _event_writer(writer: RunWriter) -> Callable[[ClusterEvent], None]:
    """Return a function that writes a cluster event to the run; see `RunWriter.event`."""

    def tell(event: ClusterEvent) -> None:
        """Write the event to the run, at the time when it happened."""
        writer.event(
            event.kind, writer.elapsed() - (time.monotonic() - event.monotonic), nodes=event.nodes, **event.detail
        )

    return tell


def _unless_cancelled(failure: LoadframeError | None) -> LoadframeError | None:
    """Return the failure, or None for a generator failure after an interrupt: cancelling a job also kills its ranks."""
    cancelled = failure is not None and failure.fault == "generator" and interrupts.pending()
    return None if cancelled else failure


def _is_refused(form: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a service refused `force_merge`, `flush` or `refresh`, only with the statuses `_NOT_OFFERED`."""
    return not _TIDYING.isdisjoint(form) and {error["status"] for error in errors} <= _NOT_OFFERED


def _incomplete_error(what: str, phase: ResolvedPhase) -> LoadframeError:
    """Return the error, with the message `what`, for a phase that left the data incomplete."""
    return LoadframeError(
        what,
        where=f"phase {phase.name}",
        remedy="the data is incomplete, so nothing was measured; remove the cause and run again",
    )


class LatestAnswers:
    """The latest answer to each operation."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    def keep(self, operation: str, answer: bytes) -> None:
        """Store an answer as the latest one to an operation, instead of the one before."""
        self._answers[operation] = answer

    def write(self, folder: Path, phase: str) -> None:
        """Write the latest JSON answer to each operation to `answers-PHASE.json`; no file if none is JSON."""
        answers = {name: read for name, answer in self._answers.items() if (read := _read(answer)) is not None}
        if answers:
            (folder / f"answers-{phase}.json").write_text(json.dumps(answers, indent=1))


def _read(answer: bytes) -> object:
    """Return an answer parsed as JSON; None if it is not JSON."""
    try:
        return json.loads(answer)
    except ValueError:
        return None
