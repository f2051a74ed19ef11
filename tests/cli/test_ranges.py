"""Numbers beyond all bounds are refused by every command and key that takes them, before anything else happens."""

import pytest
from typer.testing import CliRunner

from loadframe.base.errors import BadInput
from loadframe.base.units import LAST_PORT, MOST_NODES, MOST_SEED, MOST_THREADS
from loadframe.cli import bench, cluster, cluster_change
from loadframe.cli.app import app
from loadframe.experiment.file.reader import load_experiment
from loadframe.store.access import split_address

#: Commands are known to the app once their modules are imported.
assert bench and cluster and cluster_change


@pytest.mark.parametrize(
    ("words", "option", "most"),
    [
        ("bench none.yaml --seed", "--seed", MOST_SEED),
        ("bench none.yaml --threads", "--threads", MOST_THREADS),
        ("bench none.yaml --nodes", "--nodes", MOST_NODES),
        ("cluster up none --nodes", "--nodes", MOST_NODES),
        ("cluster up none --port", "--port", LAST_PORT),
        ("cluster grow none --nodes", "--nodes", MOST_NODES),
        ("cluster shrink none --nodes", "--nodes", MOST_NODES),
    ],
)
def test_an_option_beyond_its_range_is_refused_with_it(words, option, most):
    for number in (most + 1, 10**9 * most, -1):
        done = CliRunner().invoke(app, [*words.split(), str(number)])
        said = " ".join(done.output.replace("│", " ").split())
        assert done.exit_code == 2
        assert f"Invalid value for '{option}'" in said
    assert str(most) in said or "greater than" in said


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("seed: 9223372036854775808", "of at most 9223372036854775807"),
        ("threads: 1000000", "of at most 1024"),
        ("store: {kind: opensearch, nodes: 1000000000}", "of at most 1000"),
        ("factors: {nodes: [1, 1000000000]}", "a level of nodes: expected at most 1000 nodes"),
    ],
)
def test_a_key_beyond_its_range_is_refused_with_its_line(tmp_path, line, what):
    given = {"store": "store: {kind: opensearch}", "factors": "factors: {clients: [1, 2, 4]}"}
    given[line.partition(":")[0]] = line
    file = tmp_path / "e.yaml"
    file.write_text(
        "\n".join(["experiment: e", "workload: nyc_taxis", "kind: scale", "measure: range_default", *given.values()])
        + "\n"
    )
    with pytest.raises(BadInput) as refused:
        load_experiment(file)
    assert what in f"{refused.value.where} {refused.value.what}"
    number = 4 + 1 + list(given).index(line.partition(":")[0])
    assert f"e.yaml:{number}:" in str(refused.value.where)


@pytest.mark.parametrize("port", ["0", "65536", "9" * 5000])
def test_a_port_beyond_the_last_is_none(port):
    with pytest.raises(BadInput, match="invalid port"):
        split_address(f"127.0.0.1:{port}")
