"""How many clients a cluster needs: doubled until it is loaded, calibrated by the CPU of its nodes."""

import pytest

from loadframe.analyze.scale.saturation import Calibration, ClientsTried, calibrate, next_clients
from loadframe.analyze.scale.sweep import read_sweep
from loadframe.report import scale_words
from simulated import Truth, write_experiment


def ramp(throughput, busiest=lambda clients: None):
    trials = []
    while clients := next_clients(trials):
        trials.append(ClientsTried(clients, throughput(clients), busiest(clients), busiest(clients)))
    return [trial.clients for trial in trials]


def test_clients_double_until_throughput_no_longer_grows():
    assert ramp(lambda clients: min(clients, 10) * 100.0) == [1, 2, 4, 8, 16, 32]


def test_an_overloaded_node_ends_it():
    assert ramp(lambda clients: clients * 100.0, lambda clients: clients / 8) == [1, 2, 4, 8]


def test_one_disturbed_run_does_not_end_it_and_two_do():
    assert ramp(lambda clients: None if clients == 4 else min(clients, 10) * 100.0) == [1, 2, 4, 8, 16, 32]
    assert ramp(lambda clients: None if clients >= 4 else clients * 100.0) == [1, 2, 4, 8]
    assert ramp(lambda clients: None) == [1, 2]


def test_a_store_without_end_is_given_up_on():
    assert ramp(lambda clients: clients * 100.0)[-1] == 4096


def test_a_scattering_doubling_is_held_against_the_best_before():
    # 2 clients got less than 1 by chance: that is the end, and the curve says so.
    assert ramp(lambda clients: {1: 100.0, 2: 90.0}[clients]) == [1, 2]


def test_the_most_clients_without_idling_or_overload_are_the_calibrated_ones():
    trials = [
        ClientsTried(1, 1.0, 0.05, 0.1),
        ClientsTried(2, 2.0, 0.3, 0.4),
        ClientsTried(4, 3.0, 0.6, 0.85),
        ClientsTried(8, 3.0, 0.8, 0.97),
    ]
    assert calibrate(2, trials) == Calibration(2, 4, 0.6, 0.85)
    # In another repetition one of its nodes was overloaded.
    assert calibrate(2, [*trials, ClientsTried(4, 3.0, 0.6, 0.95)]).clients == 2
    assert calibrate(2, trials[:1]) == Calibration(2, None, 0.05, 0.1)
    assert calibrate(2, [ClientsTried(1, 1.0)]) is None, "without limits there is nothing to go by"


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        (0.3, "At 1 node up to 4 clients kept every node between 20 % and 90 % of its CPU limit (60 %)."),
        (
            0.05,
            "At 1 node no number of clients kept every node between 20 % and 90 % of its CPU limit (the nodes"
            " used 10 %)"
            ". Nodes with little load do not show their capacity. Add larger numbers of clients.",
        ),
        (
            0.49,
            "At 1 node no number of clients kept every node between 20 % and 90 % of its CPU limit (the nodes"
            " used 98 %)"
            ". At the limit, more clients add waiting time, not throughput. Add smaller numbers of clients.",
        ),
    ],
)
def test_the_report_says_it(tmp_path, cpu, said):
    truth = Truth(node_cpu=cpu, seconds=2)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, nodes=(1,), clients=(2, 4), repetitions=1)).curves
    assert any(words.startswith(said) for words in scale_words.limits(curves))
