"""An experiment in a job with limited time: it stops before the job ends, and continues later."""

import time

import pytest

from loadframe.base import interrupts
from loadframe.base.errors import ExitCode, LoadframeError
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import NEVER, Deadline, OutOfTime, run_experiment

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 50}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 50}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 1500ms}
"""
EXPERIMENT = """\
experiment: brief
store: {kind: sim, settings: {service: 1ms}}
workload: ./small.yaml
kind: scale
factors: {clients: [1, 2, 3, 4, 5, 6, 7, 8]}
"""
#: s that are kept for the end of a short time.
MARGIN = 15.0


def ending_in(seconds):
    return Deadline(time.time() + MARGIN + seconds, "job 17 of Slurm")


def test_the_first_run_is_always_tried_and_those_that_follow_only_if_they_fit():
    deadline = ending_in(60)
    deadline.require(1000, "the first run")
    deadline.run_recorded()
    deadline.require(30, "the second")
    with pytest.raises(
        OutOfTime, match="job 17 of Slurm has 1 min 00 s left, and the third takes about 2 min"
    ) as refusal:
        deadline.require(120, "the third")
    assert refusal.value.exit_status == ExitCode.TRY_AGAIN
    assert "submit the same job again" in str(refusal.value)


def test_without_an_end_there_is_always_time():
    NEVER.run_recorded()
    NEVER.require(1e9, "all")
    with NEVER.watched():
        pass


def test_the_margin_grows_with_the_time_that_there_is():
    day = Deadline(time.time() + 24 * 3600, "a day")
    day.run_recorded()
    day.require(24 * 3600 - 200, "what ends in time")
    with pytest.raises(OutOfTime):
        day.require(24 * 3600 - 170, "what does not")


def test_runs_that_exceed_the_expected_time_are_interrupted():
    interrupts.listen()
    deadline = ending_in(0.2)
    began = time.monotonic()
    with pytest.raises(OutOfTime, match="job 17 of Slurm ends soon") as refusal, deadline.watched():
        time.sleep(30)
    assert time.monotonic() - began < 25
    assert not interrupts.pending()
    # Another job of the same length would end in the same way.
    assert (refusal.value.exit_status, "request more time" in str(refusal.value)) == (1, True)
    # A repeated SIGTERM has no effect on the same command.
    interrupts.listen()
    deadline = ending_in(0.2)
    deadline.run_recorded()
    with pytest.raises(OutOfTime) as refusal, deadline.watched():
        time.sleep(30)
    assert refusal.value.exit_status == ExitCode.TRY_AGAIN


def test_an_interrupt_by_the_user_is_not_the_end_of_the_job():
    with pytest.raises(KeyboardInterrupt), ending_in(60).watched():
        raise KeyboardInterrupt


def test_an_extended_job_is_not_ended_at_its_first_limit():
    """A job ends later after a suspension, or if its limit was raised."""
    interrupts.listen()
    first, asked = time.time() + MARGIN, []

    def read():
        asked.append(None)
        return first + (0.4 if len(asked) == 1 else 3600)

    deadline = Deadline(first, "job 17 of Slurm", read)
    deadline.run_recorded()
    with deadline.watched():
        while len(asked) < 2:
            time.sleep(0.01)
    deadline.require(3500, "a run in the time that was added")
    with pytest.raises(OutOfTime):
        deadline.require(3700, "a longer run")


@pytest.mark.parametrize("answer", ["the same", "an error"])
def test_the_margin_stays_if_a_job_was_not_extended(answer):
    interrupts.listen()
    first = time.time() + 24 * 3600

    def read():
        if answer == "an error":
            raise LoadframeError("Slurm does not answer")
        return first

    deadline = Deadline(first, "job 17 of Slurm", read)
    deadline.run_recorded()
    for _ in range(2):
        with pytest.raises(OutOfTime):
            deadline.require(24 * 3600 - 170, "what does not end in time")


@pytest.mark.store
def test_runs_missing_in_one_job_are_made_in_the_next(tmp_path, state):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "e.yaml")
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))
    with pytest.raises(OutOfTime) as refusal:
        run_experiment(experiment, planned, folder, Listener(), ending_in(7))
    made = {run.id for run in planned.runs if folder.has(run.id)}
    assert 1 <= len(made) < 8
    assert refusal.value.exit_status == ExitCode.TRY_AGAIN
    assert isinstance(refusal.value, LoadframeError)
    assert folder.failed() == []
    before = {run: (folder.runs_path / run / "summary.json").stat().st_mtime_ns for run in made}
    run_experiment(experiment, planned, folder, Listener(), NEVER)
    assert all(folder.has(run.id) for run in planned.runs)
    assert before == {run: (folder.runs_path / run / "summary.json").stat().st_mtime_ns for run in made}
