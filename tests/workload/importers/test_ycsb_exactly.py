"""Imported workloads send YCSB's requests: the same records with equal frequencies, compared with YCSB's classes.

YCSB seeds its generators by the clock, so its sample differs in each run. The engine's sample is fixed.
"""

import subprocess
from collections import Counter

import pytest
from scipy.stats import chi2_contingency
from ycsb_runs import Request, engine_requests, ycsb_command, ycsb_requests

RECORDS = 300
#: Two samples of one law are called different this rarely, in each of the comparisons.
ALPHA = 1e-6
_INSERTS = {"readproportion": "0.5", "scanproportion": "0.3", "insertproportion": "0.2", "updateproportion": "0"}
_READS = {"readproportion": "1", "updateproportion": "0"}
CASES = {
    "zipfian": {**_READS, "requestdistribution": "zipfian"},
    "zipfian_inserts": {**_INSERTS, "requestdistribution": "zipfian", "maxscanlength": "10"},
    "latest": {**_READS, "requestdistribution": "latest"},
    "latest_inserts": {**_INSERTS, "requestdistribution": "latest", "readallfields": "false", "maxscanlength": "5"},
    "exponential": {**_READS, "requestdistribution": "exponential", "readallfields": "false"},
    "exponential_inserts": {
        **_INSERTS, "requestdistribution": "exponential", "exponential.percentile": "90", "exponential.frac": "0.2",
    },
    "hotspot": {**_READS, "requestdistribution": "hotspot"},
    "uniform": {"readproportion": "0.5", "updateproportion": "0.5", "requestdistribution": "uniform"},
    "sequential": {**_READS, "requestdistribution": "sequential"},
}  # fmt: skip


def properties(case: str, operations: int) -> dict[str, str]:
    return {"recordcount": str(RECORDS), "operationcount": str(operations), **CASES[case]}


def number_of() -> dict[str, int]:
    """Return the numbers of records by their keys: FNV-1a of eight bytes, as an absolute value."""
    numbers = {}
    for number in range(10 * RECORDS):
        hashed = 0xCBF29CE484222325
        for byte in number.to_bytes(8, "little"):
            hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
        numbers[f"user{min(hashed, 2**64 - hashed)}"] = number
    return numbers


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Return YCSB's requests and the engine's, of each case, from one properties file for both."""
    # YCSB draws among twice the inserts that it expects, so both sides have as many operations.
    operations = 4000
    running = {}
    requests = {}
    try:
        for case in CASES:
            command = ycsb_command(properties(case, operations))
            running[case] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        folder = tmp_path_factory.mktemp("ycsb")
        for case, process in running.items():
            ours = engine_requests(folder / case, properties(case, operations))
            requests[case] = (ycsb_requests(process), ours)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    return requests


def alike(one: Counter, two: Counter) -> None:
    """Assert that both samples have one distribution: chi-squared over frequent values, with the rest pooled."""
    often = sorted(value for value in one | two if one[value] + two[value] >= 10)
    rare = [sum(counts[value] for value in counts if value not in often) for counts in (one, two)]
    table = [[*(counts[value] for value in often), rest] for counts, rest in zip((one, two), rare, strict=True)]
    columns = [column for column in zip(*table, strict=True) if sum(column) >= 10]
    assert len(columns) >= 2
    assert chi2_contingency(list(zip(*columns, strict=True))).pvalue > ALPHA, (one.most_common(9), two.most_common(9))


def chosen(requests: list[Request]) -> list[int]:
    numbers = number_of()
    return [numbers[request.key] for request in requests if request.verb != "insert"]


def ages(requests: list[Request]) -> list[int]:
    """Return, for each chosen record, the number of newer records at that time."""
    numbers, newest, counted = number_of(), RECORDS - 1, []
    for request in requests:
        if request.verb == "insert":
            newest += 1
        else:
            counted.append(newest - numbers[request.key])
    return counted


@pytest.mark.parametrize("case", CASES)
def test_operations_have_their_shares(sides, case):
    ycsb, ours = sides[case]
    verbs = [Counter(request.verb for request in side) for side in (ycsb, ours)]
    assert verbs[0].keys() == verbs[1].keys()
    assert abs(len(ycsb) - len(ours)) <= 1
    if len(verbs[0]) > 1:
        alike(*verbs)


@pytest.mark.parametrize("case", [case for case in CASES if "inserts" in case])
def test_inserted_records_have_the_next_numbers(sides, case):
    numbers = number_of()
    for side in sides[case]:
        inserted = [numbers[request.key] for request in side if request.verb == "insert"]
        assert inserted == list(range(RECORDS, RECORDS + len(inserted)))


@pytest.mark.parametrize("case", [case for case in CASES if case != "sequential"])
def test_records_are_chosen_equally_often(sides, case):
    alike(*(Counter(chosen(side)) for side in sides[case]))


# YCSB draws new keys in each run. With inserts, its two hottest keys swap places in a few of a hundred runs.
@pytest.mark.parametrize(("case", "hottest"), [("zipfian", 1), ("zipfian_inserts", 2)])
def test_the_hot_keys_are_the_same_keys(sides, case, hottest):
    ycsb, ours = ([number for number, _ in Counter(chosen(side)).most_common()] for side in sides[case])
    assert ycsb[0] in ours[:hottest]
    assert set(ours[:4]) <= set(ycsb[:12]), "4 of 300 records, far more popular than the rest"


@pytest.mark.parametrize("case", ["latest", "latest_inserts", "exponential", "exponential_inserts"])
def test_the_newest_records_are_chosen_most_often_while_they_grow(sides, case):
    ycsb, ours = (ages(side) for side in sides[case])
    assert min(ours) == min(ycsb) == 0, "the newest record is read, and none that is not there"
    third = len(ours) // 3
    for begin in (0, third, 2 * third):
        alike(*(Counter(min(age, 60) for age in side[begin : begin + third]) for side in (ycsb, ours)))


@pytest.mark.parametrize("case", [case for case in CASES if "inserts" in case])
def test_inserted_records_are_read_and_scanned(sides, case):
    numbers = number_of()
    for verb in ("read", "scan"):
        read = [
            sum(numbers[request.key] >= RECORDS for request in side if request.verb == verb) for side in sides[case]
        ]
        assert min(read) > 0.4 * max(read), f"{verb}: {read} of {len(sides[case][0])} requests"


def test_records_that_are_read_in_turn_begin_again_after_the_last(sides):
    for side in sides["sequential"]:
        assert chosen(side) == [index % RECORDS for index in range(len(side))]


@pytest.mark.parametrize("case", ["latest_inserts", "exponential"])
def test_a_read_of_one_field_is_of_any(sides, case):
    fields = [Counter(request.fields for request in side if request.verb == "read") for side in sides[case]]
    assert len(fields[1]) == 10
    alike(*fields)


def test_scans_have_the_same_lengths(sides):
    alike(*(Counter(request.count for request in side if request.verb == "scan") for side in sides["zipfian_inserts"]))


def test_an_update_is_of_any_field(sides):
    alike(*(Counter(request.fields for request in side if request.verb == "update") for side in sides["uniform"]))


def test_threads_of_a_process_insert_the_same_records_and_read_each_others(tmp_path):
    requests = engine_requests(
        tmp_path / "threads", {**properties("latest_inserts", 2000), "threadcount": "4"}, threads=2
    )
    numbers = number_of()
    inserted = [numbers[request.key] for request in requests if request.verb == "insert"]
    assert sorted(inserted) == list(range(RECORDS, RECORDS + len(inserted)))
    there = set(range(RECORDS))
    for request in requests:
        if request.verb == "insert":
            there.add(numbers[request.key])
        else:
            assert numbers[request.key] in there
    assert max(chosen(requests)) > RECORDS + 0.7 * len(inserted)


def test_ranks_insert_the_records_of_one_process_between_them(tmp_path):
    given = {**properties("latest_inserts", 2000), "threadcount": "2"}
    numbers = number_of()
    inserted = []
    for rank in (0, 1):
        requests = engine_requests(tmp_path / f"rank{rank}", given, rank=rank, ranks=2)
        inserted.append([numbers[request.key] for request in requests if request.verb == "insert"])
    assert min(map(len, inserted)) > 100
    assert sorted(inserted[0] + inserted[1]) == list(range(RECORDS, RECORDS + sum(map(len, inserted))))
