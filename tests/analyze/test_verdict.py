"""Each doubt about a run is raised at its limit and not before, with figures and a remedy."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from loadframe.analyze.summary import silences
from loadframe.analyze.verdict.judge import DETECTORS, JudgedPhase, detector, judge
from loadframe.analyze.verdict.rules import RULES, ValidityRule, effect_of, fault_of
from loadframe.analyze.verdict.self_monitor import OtherPrograms, other_programs
from loadframe.base.event_kinds import GAP
from loadframe.record.schema.figures import KernelTimes, Latency
from loadframe.record.schema.summary import ChosenWindow, GeneratorFigures, MachineFigures, RankFigures, StreamSummary
from made_up_runs import operation, phase
from simulated import Truth, write_run

QUIET = GeneratorFigures(
    threads=2,
    cpu_share=0.5,
    cpu_share_peak=0.7,
    waited_share=0.01,
    throttled_share=None,
    stolen_share=None,
    network_share=None,
    ceiling_share=None,
    lateness_p99=1e-5,
    lag_p99=1e-4,
    longest_stall=2e-3,
    away_share=0.0,
    achieved=None,
)
CLOSED = {"closed": {"clients": 8, "think_time": 0.0}}
THINKING = {"closed": {"clients": 8, "think_time": 0.25}}
DRAWN = {"closed": {"clients": 8, "think_time": {"exponential": 0.25}}}
STAGED = {"closed": {"clients": {"from": 1, "stages": [{"to": 8, "over": 30}]}, "think_time": 0.0}}
RAMP = {"open": {"rate": {"from": 0, "stages": [{"to": 100, "over": 30}]}, "arrivals": "constant"}}
OPEN = {"open": {"rate": 100.0, "arrivals": "constant", "max_in_flight": 1024}}
WALKING = {"users": {"users": 20, "clients": 8, "think_time": 0.0}}


def verdict(generator=QUIET, pacing=CLOSED, throughput=None, deviations=(), **figures):
    latency = Latency(p99=figures.pop("p99", 0.1))
    measured = replace(
        phase("range", {"range": operation(100.0, response=latency, service=latency, **figures)}),
        streams=(StreamSummary("main", pacing),),
    )
    series = np.full(30, 100.0) if throughput is None else throughput
    return judge([JudgedPhase(measured, generator, series)], deviations)


def codes(*arguments, **operation):
    return [reason.code for reason in verdict(*arguments, **operation).reasons]


def test_a_quiet_generator_and_good_answers_are_valid():
    assert not verdict().reasons
    assert not verdict(replace(QUIET, achieved=0.995), OPEN).reasons


def contended(share, busy, machine=None):
    programs = {"rustc": share - 0.02, "python": 0.02} if share else {}
    latency = Latency(p99=0.1)
    measured = phase("range", {"range": operation(100.0, response=latency, service=latency)})
    used = OtherPrograms(machine, share, busy, programs)
    return judge([JudgedPhase(measured, QUIET, np.full(30, 100.0), programs=[used])], ())


def test_other_programs_on_a_full_machine_are_named():
    assert not contended(0.05, 0.99).reasons
    assert not contended(0.4, 0.8).reasons, "the machine has idle processors"
    judged = contended(0.4, 0.99)
    (reason,) = judged.reasons
    assert reason.code == "contended"
    assert reason.cause == (
        "in phase range other programs used 40 % of the processors of this machine, which were 99 % busy: rustc 38 %,"
        " python 2 % (limit 5 % of processors over 80 % busy)"
    )
    assert judged.valid
    assert [figure.state for figure in judged.figures if figure.figure == "throughput"] == ["good"]
    (reason,) = contended(0.4, 0.99, "m2").reasons
    assert "of machine m2, which" in reason.cause


def test_the_use_of_other_programs_is_a_mean_over_the_window_by_machine():
    samples = [
        (0.5, "host", "cpu.programs", 1.0),
        (1.0, "host", "cpu.programs", 0.5),
        (1.0, "host", "cpu.program:python", 0.1),
        (1.0, "host", "cpu.program:rustc", 0.4),
        (1.0, "host", "cpu.busy", 1.0),
        (2.0, "host", "cpu.programs", 0.1),
        (2.0, "host", "cpu.busy", 0.8),
        (2.0, "machine:m2", "cpu.programs", 0.0),
        (2.0, "machine:m3", "cpu.busy", 1.0),
        (3.0, "host", "cpu.programs", 1.0),
    ]
    telemetry = pa.Table.from_pylist(
        [dict(zip(("time", "source", "metric", "value"), row, strict=True)) for row in samples]
    )
    here, there = other_programs(telemetry, 1.0, 3.0)
    assert (here.machine, here.share, here.busy) == (None, pytest.approx(0.3), pytest.approx(0.9))
    assert [*here.programs.items()] == [("rustc", pytest.approx(0.2)), ("python", pytest.approx(0.05))]
    assert there == OtherPrograms("m2", 0.0, 0.0, {})


def test_a_worker_above_80_percent_is_the_limit():
    assert codes(replace(QUIET, cpu_share=0.80)) == []
    assert codes(replace(QUIET, cpu_share=0.81)) == ["generator_cpu"]


def test_a_worker_without_a_core_is_starved():
    assert codes(replace(QUIET, waited_share=0.20)) == []
    assert codes(replace(QUIET, waited_share=0.21)) == ["starved"]


def test_a_quota_is_distinguished_from_other_processes():
    assert codes(replace(QUIET, throttled_share=0.01)) == []
    assert codes(replace(QUIET, waited_share=0.5, throttled_share=0.35)) == ["throttled"]
    assert codes(replace(QUIET, waited_share=0.5, throttled_share=0.2)) == ["starved", "throttled"]


def test_a_network_near_its_speed_is_the_limit():
    assert codes(replace(QUIET, network_share=0.80)) == []
    assert codes(replace(QUIET, network_share=0.81)) == ["network"]


def test_a_rate_near_the_calibrated_ceiling_is_doubted():
    assert codes(replace(QUIET, ceiling_share=0.80)) == []
    assert codes(replace(QUIET, ceiling_share=0.81)) == ["generator_ceiling"]


@pytest.mark.parametrize("pacing", [OPEN, THINKING, DRAWN])
def test_requests_that_are_due_at_fixed_instants_must_not_be_late(pacing):
    assert codes(replace(QUIET, lateness_p99=0.4e-3), pacing, p99=0.01) == []
    assert codes(replace(QUIET, lateness_p99=0.6e-3), pacing, p99=0.01) == ["lateness"]
    assert codes(replace(QUIET, lateness_p99=0.6e-3), pacing, p99=None) == [], "no response time includes it"


@pytest.mark.parametrize("response", [1e-4, 1.0])
def test_the_limit_of_lateness_is_a_share_of_the_response_time(response):
    assert codes(replace(QUIET, lateness_p99=0.049 * response), OPEN, p99=response) == []
    [late] = verdict(replace(QUIET, lateness_p99=0.06 * response), OPEN, p99=response).reasons
    assert late.cause.endswith(", 6 % of the p99 response time (limit 5 %)")


def test_closed_clients_without_think_time_cannot_be_late():
    assert codes(replace(QUIET, lateness_p99=0.5), CLOSED) == []


def test_lag_counts_where_response_times_show_it():
    assert codes(replace(QUIET, lag_p99=4e-3), p99=0.1) == []
    assert codes(replace(QUIET, lag_p99=6e-3), p99=0.1) == ["loop_lag"]
    assert codes(replace(QUIET, lag_p99=0.9e-3), p99=0.002) == []


LAGGING = replace(QUIET, lag_p99=0.036, waited_share=0.0)


@pytest.mark.parametrize(
    ("figures", "cause", "remedy"),
    [
        ({"others": 0.45}, "; other programs used 45 % of this machine", "stop other programs on this machine"),
        (
            {"stolen_share": 0.006},
            "; the hypervisor took 1 % of this machine's processor time",
            "use a machine of your own, or repeat",
        ),
        ({"cpu_share": 0.7}, "; a generator thread used 70 % of its core", "give the generator more threads (--thr"),
        (
            {"others": 0.21, "cpu_share": 0.51},
            "; other programs used 21 % of this machine; a generator thread used 51 % of its core",
            "stop other programs on this machine; give the generator more threads",
        ),
        # None of these is above its limit.
        ({"others": 0.2, "stolen_share": 0.0025, "cpu_share": 0.5}, " 5 %)", "other processes used the gen"),
        ({}, " 5 %)", "other processes used the generator's cores: give the generator its own cores"),
    ],
)
def test_the_remedy_of_lag_follows_its_recorded_causes(figures, cause, remedy):
    measured = phase("range", {"range": operation(100.0, response=Latency(p99=0.002), service=Latency(p99=0.002))})
    others = figures.pop("others", None)
    programs = [] if others is None else [OtherPrograms(None, others, 0.5, {"cc1": others})]
    judged = judge(
        [JudgedPhase(measured, replace(LAGGING, **figures), np.full(30, 100.0), cpus=4, programs=programs)], ()
    )
    (reason,) = judged.reasons
    assert reason.cause.startswith(
        "in phase range the generator's event loops lagged: p99 36 ms, 18 times the p99 response time (limit 1 ms,"
    )
    assert reason.cause.endswith(cause)
    assert reason.remedy.startswith(remedy)


def test_the_worst_lag_is_the_largest_share_of_the_response_time():
    (slow,) = verdict(replace(QUIET, lag_p99=0.04), p99=0.4).recorded().reasons
    (fast,) = verdict(replace(QUIET, lag_p99=0.003), p99=0.002).recorded().reasons
    assert "10 % of the p99" in slow.cause
    assert "1.5 times the p99" in fast.cause
    assert fast.severity > slow.severity


@pytest.mark.parametrize("pacing", [CLOSED, THINKING, OPEN])
def test_a_generator_that_stands_still_is_doubted_whatever_its_percentiles_say(pacing):
    assert codes(replace(QUIET, longest_stall=0.5, away_share=0.02), pacing) == []
    assert codes(replace(QUIET, longest_stall=0.51), pacing) == ["stalled"]
    assert codes(replace(QUIET, longest_stall=0.1, away_share=0.021), pacing) == ["stalled"]
    cause = verdict(replace(QUIET, longest_stall=1.0, away_share=0.167), pacing).reasons[0].cause
    assert cause.startswith("in phase range the generator stalled for up to 1 s at a time, and for 16.7 % of the time")


def test_a_hypervisor_that_takes_processors_is_named_where_it_shows():
    late, lagging = replace(QUIET, lateness_p99=6e-3), replace(QUIET, lag_p99=6e-3)
    for figures, pacing in ((late, OPEN), (lagging, CLOSED)):
        assert verdict(replace(figures, stolen_share=None), pacing).reasons[0].remedy.count("--cores") == 1
        [alone] = verdict(replace(figures, stolen_share=0.01), pacing).reasons
        assert "hypervisor" not in alone.cause
        [shared] = verdict(replace(figures, stolen_share=0.12), pacing).reasons
        assert shared.cause.endswith("; the hypervisor took 12 % of this machine's processor time")
        assert "when other guests of" in shared.remedy
        assert "--cores" not in shared.remedy
        # Processes of this machine took more.
        [busy] = verdict(replace(figures, stolen_share=0.05, waited_share=0.15), pacing).reasons
        assert "hypervisor" not in busy.cause
        assert "--cores" in busy.remedy
    assert codes(replace(QUIET, stolen_share=0.12)) == []


def test_an_open_load_must_be_achieved():
    assert codes(replace(QUIET, achieved=0.98), OPEN) == ["not_achieved"]


@pytest.mark.parametrize(
    ("warmup", "words"),
    [(0.0, "may also be cold without a warm-up"), (1.0, "may also be cold after a warm-up of 1 s"), (30.0, None)],
)
def test_an_overload_soon_after_the_start_may_be_a_cold_store(warmup, words):
    measured = phase("range", {"range": operation(100.0)})
    measured = replace(measured, warmup=warmup, streams=(StreamSummary("main", OPEN),))
    judged = judge([JudgedPhase(measured, replace(QUIET, achieved=0.9), np.full(30, 100.0))], ())
    (reason,) = [reason for reason in judged.reasons if reason.code == "not_achieved"]
    assert "the rate exceeds the capacity" in reason.remedy
    assert ("cold" in reason.remedy) == bool(words)
    assert (words or "") in reason.remedy


def test_one_dropped_request_in_a_thousand_is_let_pass():
    assert codes(pacing=OPEN, dropped=1) == []
    assert codes(pacing=OPEN, dropped=2) == ["dropped"]


def test_more_than_one_failure_in_a_hundred_is_too_many():
    assert codes(successes=990, errors={"timeout": 10}) == []
    doubted = verdict(successes=989, errors={"timeout": 8, "rejected": 3})
    assert [reason.code for reason in doubted.reasons] == ["errors"]
    assert "11 of 1,000" in doubted.reasons[0].cause
    assert "8 timeout, 3 rejected" in doubted.reasons[0].cause


def test_requests_that_were_never_answered_count_as_failed():
    assert codes(in_flight_at_end=32) == ["errors"]


def test_a_window_without_any_answer_measures_nothing():
    assert codes(requests=0, successes=0, p99=None) == ["nothing_measured"]


@pytest.mark.parametrize(("pacing", "expected"), [(WALKING, []), (CLOSED, ["nothing_measured"])])
def test_an_operation_past_which_users_may_walk_need_not_be_asked_for(pacing, expected):
    latency = Latency(p99=0.1)
    operations = {
        "usual": operation(100.0, response=latency, service=latency),
        "seldom": operation(0.0, requests=0, successes=0, response=Latency(), service=Latency()),
    }
    measured = replace(phase("range", operations), streams=(StreamSummary("main", pacing),))
    judged = judge([JudgedPhase(measured, QUIET, np.full(30, 100.0))], ())
    assert [reason.code for reason in judged.reasons] == expected


def test_throughput_that_moves_is_not_steady():
    assert codes(throughput=np.linspace(80, 120, 60)) == ["unsteady"]


@pytest.mark.parametrize("pacing", [STAGED, RAMP])
def test_a_load_that_changes_by_plan_is_not_called_unsteady(pacing):
    moving = verdict(pacing=pacing, throughput=np.linspace(80, 120, 60))
    assert not moving.reasons
    assert moving.not_judged == ("steadiness of phase range: its load changes in stages",)


def test_the_course_of_one_journey_is_not_called_unsteady():
    measured = phase("weeks", {"activity": operation(100.0, response=Latency(p99=0.1), service=Latency(p99=0.1))})
    moving = np.linspace(80, 120, 60)
    judged = judge([JudgedPhase(measured, QUIET, moving, one_journey=True)], ())
    assert not judged.reasons
    assert judged.not_judged == (
        "steadiness of phase weeks: each user makes one journey: its steps determine the load",
    )
    assert judge([JudgedPhase(measured, QUIET, moving)], ()).reasons


def test_short_runs_report_that_steadiness_was_not_checked():
    short = verdict(throughput=np.array([100.0, 10.0, 500.0]))
    assert not short.reasons
    assert short.not_judged == ("steadiness of phase range: 3 s is too short (20 s are needed)",)


#: After 15 of 30 s, most of the throughput is gone.
HALVED = Truth(seconds=30, noise=0.0, factor=lambda second: 1.0 if second < 15 else 0.2)


@pytest.mark.parametrize("died_at", [16.5, None])
def test_steadiness_is_not_checked_if_a_node_was_lost(tmp_path, died_at):
    gone = {"kind": GAP, "time": died_at, "source": "node:node-1", "cause": "process 7 is gone"}
    run = write_run(tmp_path, "r", HALVED, lost=["node-1 has ended"], gaps=[gone] if died_at else [])
    judged = run.summary.verdict
    assert [reason.code for reason in judged.reasons] == ["node_lost"]
    assert judged.not_judged == ("steadiness of phase range_100: a node was lost",)


def test_a_phase_that_ended_before_the_loss_must_be_steady(tmp_path):
    # The phase ends 31.5 s after the run began; its warm-up is a second.
    gone = {"kind": GAP, "time": 32.0, "source": "node:node-1", "cause": "process 7 is gone"}
    judged = write_run(tmp_path, "r", HALVED, lost=["node-1 has ended"], gaps=[gone]).summary.verdict
    assert [reason.code for reason in judged.reasons] == ["node_lost", "unsteady"]
    assert judged.not_judged == ()


def test_a_cluster_in_another_state_than_the_treatments_is_named():
    doubted = verdict(deviations=["2 nodes instead of 3"])
    assert doubted.recorded().reasons[0].code == "cluster_state"
    assert doubted.recorded().reasons[0].cause == "2 nodes instead of 3"


def test_each_reason_states_cause_and_remedy():
    bad = replace(
        QUIET,
        cpu_share=0.99,
        waited_share=0.9,
        throttled_share=0.3,
        network_share=0.9,
        ceiling_share=0.9,
        lateness_p99=0.5,
        lag_p99=0.5,
        longest_stall=1.0,
        away_share=0.2,
        achieved=0.1,
    )
    doubted = verdict(bad, OPEN, np.linspace(1, 9, 60), ["no node"], successes=1, dropped=500, errors={"item": 999})
    result = doubted.recorded()
    assert not result.valid
    assert {reason.code for reason in result.reasons} == {
        "generator_cpu", "starved", "throttled", "network", "generator_ceiling", "lateness", "loop_lag", "stalled",
        "not_achieved", "dropped", "errors", "unsteady", "cluster_state",
    }  # fmt: skip
    assert all(reason.cause and reason.remedy for reason in result.reasons)


def test_a_machine_that_did_not_answer_under_load_is_named_even_where_the_cluster_was_changed():
    happened = [
        {"time": 2.0, "kind": "gap", "source": "machine:m3"},
        {"time": 4.0, "kind": "gap over", "source": "machine:m3"},
        {"time": 11.0, "kind": "gap", "source": "machine:m1"},
        {"time": 11.0, "kind": "gap", "source": "node:node-0"},
        {"time": 18.0, "kind": "gap over", "source": "machine:m1"},
        {"time": 36.0, "kind": "gap", "source": "machine:m2"},
    ]
    silent = silences(happened, 10.0, 40.0)
    assert silent == {"m1": 7.0, "m2": 4.0}
    measured = phase("range", {"range": operation(100.0)})
    for disturbed in (False, True):
        judged = judge([JudgedPhase(measured, QUIET, np.full(30, 100.0), silent)], (), disturbed=disturbed)
        assert [(reason.code, reason.rule.fault) for reason in judged.reasons] == [("machine_silent", "cluster")] * 2
        assert "in phase range the machine m1 did not answer for 7 s" in judged.reasons[0].as_dict()["cause"]


def test_a_quota_on_one_of_several_machines_names_its_rank():
    ranks = (RankFigures(rank=0, machine="m5"), RankFigures(rank=1, machine="m6", waited_share=0.4))
    machines = (MachineFigures("m5", throttled_share=0.0), MachineFigures("m6", throttled_share=0.35))
    measured = replace(phase("range", {"range": operation(100.0)}), ranks=ranks, machines=machines)
    judged = judge([JudgedPhase(measured, QUIET, np.full(30, 100.0))], ())
    assert [reason.code for reason in judged.reasons] == ["throttled"]
    assert "on rank 1 (m6) the generator was throttled for 35 %" in judged.reasons[0].as_dict()["cause"]


def test_a_backlog_of_the_warm_up_is_named():
    # A fifth more was answered than was due.
    backlog = verdict(replace(QUIET, achieved=1.2), OPEN, inherited=440, successes=2200, requests=2200)
    assert [reason.code for reason in backlog.reasons] == ["backlog"]
    assert "440 requests that were due in the warm-up" in backlog.reasons[0].as_dict()["cause"]
    # Requests that cross the window's ends in any case are not a backlog.
    assert codes(replace(QUIET, achieved=1.015), OPEN, inherited=20, successes=400, requests=400) == []


def test_failed_requests_are_listed_by_class_with_thousands_separated():
    judged = verdict(requests=60_000, successes=0, errors={"connect": 59_000, "timeout": 1_000})
    assert any("(59,000 connect, 1,000 timeout;" in reason.cause for reason in judged.reasons)


def test_a_rule_from_outside_is_judged_with_its_fault_and_effect():
    rule = ValidityRule("toy", "the toy of phase {phase} fell", "pick it up", fault="store", effect="result")

    @detector
    def detect(judged):
        yield rule(phase=judged.summary.name)

    try:
        assert [reason.cause for reason in verdict().reasons] == ["the toy of phase range fell"]
        assert (fault_of("toy"), effect_of("toy")) == ("store", "result")
    finally:
        DETECTORS.remove(detect)
        del RULES["toy"]
    assert not verdict().reasons


@pytest.mark.parametrize("widest", [0.081, None])
def test_an_automatic_duration_that_ended_before_its_precision_is_imprecise(widest):
    def judged(reached):
        window = ChosenWindow(precision=0.05, reached=reached, widest=widest, outside=0.01)
        measured = replace(phase("range", {"range": operation(100.0)}), duration=20.0, window=window)
        return judge([JudgedPhase(measured, QUIET, np.full(30, 100.0))], ())

    (reason,) = judged(False).reasons
    assert reason.code == "imprecise"
    assert "required precision of 5 % within 20 s" in reason.cause
    assert ("unknown" if widest is None else "8.1 %") in reason.cause
    assert "raise at_most" in reason.remedy
    assert {entry.state for entry in judged(False).figures} == {entry.state for entry in judged(True).figures}
    assert not judged(True).reasons


@pytest.mark.parametrize(("corrected", "codes"), [(38e-6, ["generator_overhead"]), (96e-6, [])])
def test_overhead_above_its_limit_is_a_reason_with_both_times_and_the_share(corrected, codes):
    def with_overhead(service, rest):
        times = KernelTimes(Latency(count=9, p99=service - rest), Latency(count=9, p99=rest), 0, 0)
        served = Latency(count=1000, p99=service)
        return operation(100.0, response=served, service=served, kernel_times=times)

    operations = {"get": with_overhead(1e-4, corrected), "put": with_overhead(1e-3, 0.96e-3), "ask": operation(1.0)}
    judged = judge([JudgedPhase(phase("p", operations), QUIET, np.full(30, 100.0))], ())
    assert [reason.code for reason in judged.reasons] == codes
    for reason in judged.reasons:
        assert (
            "without it, the p99 service time of get is 38 us instead of 100 us, 62 % less (limit 5 %)" in reason.cause
        )
        assert "lower bound" in reason.remedy
