"""`loadframe fit`: JSON of the documented shape, a readable table, and one message for bad files."""

from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from commands import loadframe, result

SCALING = Path(__file__).parents[1] / "data" / "scaling"


def fit(*words: str | Path) -> CompletedProcess[str]:
    return loadframe("fit", *words)


def parsed(*words: str | Path) -> Any:
    return result("fit", *words)


def test_json_has_the_documented_keys():
    result = parsed(SCALING / "raytracer.csv")
    assert list(result) == [
        "scaling", "best", "models", "possible", "peak", "peak_standing", "scaled_speedup", "robust", "warnings",
    ]  # fmt: skip
    assert result["scaled_speedup"] is None
    keys = {name: list(model["parameters"]) for name, model in result["models"].items()}
    assert keys == {
        "linear": ["lambda"],
        "amdahl": ["lambda", "sigma"],
        "knee": ["lambda", "ceiling"],
        "usl": ["lambda", "sigma", "kappa"],
    }
    for model in result["models"].values():
        assert list(model) == ["parameters", "aicc", "r_squared"]
        for estimate in model["parameters"].values():
            assert list(estimate) == ["value", "low", "high"]
            assert estimate["low"] <= estimate["value"]
    assert all(list(warning) == ["code", "cause", "remedy"] for warning in result["warnings"])


def test_a_block_column_is_the_block_of_each_run(tmp_path):
    rows = [(n, f * 10 * n, b) for b, f in enumerate((1.0, 1.3, 0.8)) for n in (1, 2, 4, 8)]
    (tmp_path / "blocks.csv").write_text("\n".join(["nodes,throughput,block", *(f"{n},{x},{b}" for n, x, b in rows)]))
    (tmp_path / "plain.csv").write_text("\n".join(["nodes,throughput", *(f"{n},{x}" for n, x, _ in rows)]))
    blocks, plain = (parsed(tmp_path / f"{name}.csv")["models"]["linear"] for name in ("blocks", "plain"))
    assert plain["r_squared"] < 0.99 < blocks["r_squared"]
    wide, narrow = (model["parameters"]["lambda"] for model in (blocks, plain))
    assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]


def test_a_peak_has_its_place_and_its_throughput():
    peak = parsed(SCALING / "exact.csv", "--residuals", "absolute")["peak"]
    assert peak["n"]["value"] == pytest.approx(7, rel=0.01)
    assert peak["throughput"]["value"] == pytest.approx(3.571, rel=0.01)
    assert parsed(SCALING / "netflix_cassandra.csv")["peak"] is None


def test_an_open_end_of_an_interval_is_null(tmp_path):
    (tmp_path / "three.csv").write_text("nodes,throughput\n1,10\n2,18\n4,28\n")
    assert parsed(tmp_path / "three.csv")["models"]["usl"]["parameters"]["kappa"]["high"] is None


def test_the_residuals_are_relative_by_default():
    relative = parsed(SCALING / "raytracer.csv")
    assert relative == parsed(SCALING / "raytracer.csv", "--residuals", "relative")
    assert relative != parsed(SCALING / "raytracer.csv", "--residuals", "absolute")


def test_people_get_a_sentence_a_table_and_the_doubts():
    shown = fit(SCALING / "sysbench_cpu.csv").stdout
    assert "hard ceiling" in shown
    assert "→ hard knee" in shown
    assert "! only 5 different numbers of threads were measured" in shown


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("nodes,throughput\n1,10\n", "bad.csv", "only 1 distinct size"),
        ("nodes,throughput\n1,10\n2,-3\n", "bad.csv:3", "above 0"),
        ("nodes,throughput\n1,10\n2,fast\n", "bad.csv:3", "not a finite number"),
        ("nodes,throughput\n1,10\n2\n", "bad.csv:3", "1 column"),
        ("load,throughput\n0.02,10\n0.1,20\n0.2,30\n", "bad.csv", "multiply all sizes by 100, so that n"),
    ],
)
def test_a_bad_file_is_one_message_and_status_2(tmp_path, content, where, what):
    (tmp_path / "bad.csv").write_text(content)
    done = fit(tmp_path / "bad.csv", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert what in done.stderr
    assert f"{tmp_path}/{where}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_named(tmp_path):
    done = fit(tmp_path / "none.csv")
    assert done.returncode == 2
    assert "none.csv: cannot read the file: No such file or directory" in done.stderr
