"""The minimum time of users on their journeys, in the seconds of the workload file."""

import pytest

from loadframe.experiment.design.estimate import least_seconds, walks_journeys
from loadframe.workload import load_workload

TEXT = """\
workload: w
variables: {now: {instant: {format: "%H"}}}
operations:
  a: {http: {method: GET, path: "/a/${now}", capture: {n: {json: /n}}}}
phases: [{name: p, users: 10, CLOCK journey: JOURNEY, HOW}]
"""
THINKS = "{operation: a, think_time: 2s}"
HOURS = "[{repeat: {times: 6, steps: [{operation: a, think_time: 1s}, {pause: 1h}]}}]"
FLAG = "{when: {value: {of: n, below: 1}}"


def phase(folder, journey, how, clock="clock: {from: 2018-01-01, scale: 3600},"):
    text = TEXT.replace("HOW", how).replace("JOURNEY", journey)
    if "pause" not in journey:
        clock, text = "", text.replace("${now}", "b").replace('variables: {now: {instant: {format: "%H"}}}\n', "")
    (folder / "w.yaml").write_text(text.replace("CLOCK", clock))
    (made,) = load_workload(str(folder / "w.yaml")).file.phases
    return made


@pytest.mark.parametrize(
    ("journey", "how", "seconds"),
    [
        # After the last request, no client waits for a pause.
        (f"[{THINKS}]", "journeys: 1", 0),
        (f"[{THINKS}]", "journeys: 4", 6),
        (f"[{THINKS}, a]", "journeys: 4, think_time: {uniform: [1s, 3s]}", 14),
        (f"[{THINKS}, a]", "journeys: 1, arrive_over: 10s", 11),
        (
            "[{repeat: {times: 3, steps: [{think: {exponential: 1s}}, a, {think: {normal: [2s, 1s]}}]}}]",
            "journeys: 1",
            7,
        ),
        (f"[{{repeat: {{times: 3, until: {{known: n}}, steps: [{THINKS}]}}}}, {THINKS}, a]", "journeys: 1", 2),
        (f"[{{choose: [{{weight: 3, steps: [{THINKS}]}}, {{weight: 1}}]}}, a]", "journeys: 1", 1.5),
        (f"[{{when: {{known: n}}, steps: [{THINKS}], otherwise: [{{think: 1s}}]}}, a]", "journeys: 1", 1),
        # A journey that may end there, or a request that may be left out, is not waited for.
        (f"[{THINKS}, a, {FLAG}, steps: [{{leave: true}}]}}, {THINKS}, a]", "journeys: 1", 2),
        ("[{operation: a, think_time: 2s, missing: skip}, a]", "journeys: 1", 0),
        (f"[{{timed: {{name: t, steps: [{THINKS}, a]}}}}]", "journeys: 1", 2),
        # An hour of simulated time is one second. A pause runs in parallel with it, so the waits do not add up.
        (HOURS, "journeys: 1", 5),
        (HOURS, "journeys: 2", 11),
        (HOURS.replace("1h", "2h"), "journeys: 1", 10),
        (HOURS, "duration: 1h", 0),
    ],
)
def test_the_least_time_is_the_sum_of_think_times_and_pauses(tmp_path, journey, how, seconds):
    made = phase(tmp_path, journey, how)
    assert least_seconds(made) == pytest.approx(seconds)
    assert walks_journeys(made) == ("journeys" in how)


def test_a_shared_clock_waits_for_nothing_but_its_users(tmp_path):
    made = phase(tmp_path, HOURS, "journeys: 1", "clock: {from: 2018-01-01, shared: true},")
    assert least_seconds(made) == 5
