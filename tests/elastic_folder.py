"""Folders of elastic experiments with known truth: a node is added at 60 s, half the work is lost for 40 s."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from simulated import Truth, write_run

#: s since the measured window began.
ASKED, JOINED, BALANCED, GAIN = 60.0, 75.0, 90.0, 1.7
SECONDS, WINDOW = 200, 20.0

_GROWN = (
    (ASKED, "trigger fired", {"step": 1, "trigger": "at 60 s", "seen": "at 60 s", "control": False}),
    (ASKED, "change started", {"step": 1, "change": "add 1"}),
    (ASKED, "node requested", {"nodes": ["node-1"]}),
    (ASKED + 1, "balancing", {"step": 1, "what": "taking node-1 in", "unit": "shards"}),
    (JOINED, "node joined", {"nodes": ["node-1"]}),
    (BALANCED, "cluster balanced", {"nodes": ["node-1"]}),
    (BALANCED, "change over", {"step": 1, "change": "add 1"}),
)
#: Error of a node that never joins, and its form in verdicts.
CAUSE = "node-1 did not come up within 60 s"
FAILED = f"step 1, add 1, failed: {CAUSE}"
_IN_PIECES = (*_GROWN[:4], (ASKED + 60, "change failed", {"step": 1, "change": "add 1", "cause": CAUSE}))
#: A node is killed and comes back, and another one is added.
KILLED_AND_STARTED = (
    (40.0, "trigger fired", {"step": 1, "trigger": "at 40 s", "seen": "at 40 s", "control": False}),
    (40.0, "change started", {"step": 1, "change": "kill node-1"}),
    (40.1, "node killed", {"nodes": ["node-1"]}),
    (80.0, "trigger fired", {"step": 2, "trigger": "at 80 s", "seen": "at 80 s", "control": False}),
    (80.0, "change started", {"step": 2, "change": "start node-1"}),
    (85.0, "node restarted", {"nodes": ["node-1"]}),
    (120.0, "trigger fired", {"step": 3, "trigger": "at 120 s", "seen": "at 120 s", "control": False}),
    (120.0, "change started", {"step": 3, "change": "add 1"}),
    (120.0, "node requested", {"nodes": ["node-2"]}),
    (130.0, "node joined", {"nodes": ["node-2"]}),
)
_WATCHED = ((ASKED, "trigger fired", {"step": 1, "trigger": "at 60 s", "seen": "at 60 s", "control": True}),)

_IN_VAIN = ((float(SECONDS), "trigger never fired", {"step": 1, "trigger": "at 60 s"}),)


def _relieved(gain: float) -> Callable[[int], float]:
    """Return the factor of throughput by second, for a node that is added."""
    return lambda second: 1.0 if second < ASKED else 0.5 if second < ASKED + 40 else gain


def _drifting(drift: float) -> Callable[[int], float]:
    return lambda second: 1.0 if second < ASKED else drift


def write_elastic(
    path: Path,
    *,
    repetitions: int = 2,
    control: bool = True,
    failed: str = "",
    rate: float = 0,
    drift: Sequence[float] = (1.0,),
    capacity: Sequence[dict[str, float]] = (),
    fired: bool = True,
    gain: float = GAIN,
    unjoined: Sequence[int] = (),
    nodes: int = 1,
    events: Sequence[tuple[float, str, dict[str, object]]] = _GROWN,
) -> Path:
    """Write an experiment of one transition under one load; with a rate the load is open.

    In the control runs throughput becomes `drift` times what it was, too; of several values each block takes the next.
    Where the trigger never fired nothing was changed. In the blocks `unjoined` the node never joins.
    """
    truth = Truth(seconds=SECONDS, warmup=1, operation="look", noise=0.01, rate=rate or None)
    design = []
    (path / "runs").mkdir(parents=True)
    for block in range(1, repetitions + 1):
        for event in (True, False) if control else (True,):
            name = f"b{block}-grow-steady{'' if event else '-control'}"
            treatment = {"transition": "grow", "load": "steady", "nodes": nodes, "event": event}
            design.append({"run": name, "block": block, "treatment": treatment})
            alone = _drifting(drift[block % len(drift)])
            dead = event and block in unjoined
            told = ((_IN_PIECES if dead else events) if event else _WATCHED) if fired else _IN_VAIN
            grows = event and fired and not dead
            truth_of_run = replace(truth, events=told, factor=_relieved(gain) if grows else alone)
            if name == failed:
                truth_of_run = replace(truth_of_run, cpu_share=0.97)
            labels = {"treatment": treatment, "block": block, "repetition": block}
            labels |= {"deviations": [FAILED]} if dead else {}
            write_run(path / "runs", name, truth_of_run, seed=2 * block + event, **labels)
    description = {
        "experiment": "simulated",
        "question": "What does a second node cost, and what does it bring?",
        "store": {"kind": "opensearch", "nodes": nodes},
        "workload": "nyc_taxis",
        "kind": "elastic",
        "window": WINDOW,
        "slo": {"p99": 1.0, "errors": None},
        "transitions": {"grow": {"nodes": None, "timeline": [{"at": ASKED, "add": 1}], "policy": None}},
        "loads": {"steady": {"clients": None if rate else 8, "rate": rate or None}},
        "capacity": list(capacity),
        "factors": {},
        "prepare": ["load"],
        "measure": ["look"],
        "repetitions": repetitions,
        "seed": 1,
        "file": "experiment: simulated\n",
        "design": design,
    }
    (path / "experiment.json").write_text(json.dumps(description))
    return path
