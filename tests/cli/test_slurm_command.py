"""`loadframe slurm`: a batch script to be read, which a real Slurm carries out in as many jobs as it takes."""

import re
import subprocess
from pathlib import Path

import pytest

from commands import LOADFRAME, within
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.record import Run

EXPERIMENT = """\
experiment: small
store: {kind: redis, host: slurm, placement: {share: false}}
workload: ycsb/b
with: {records: 500}
kind: scale
factors: {nodes: [1, 3], clients: [1, 2]}
warmup: 0s
duration: 3s
repetitions: 2
"""
#: Runs that may take an hour, and are over in a second.
BRIEF = """\
experiment: small
store: {kind: redis, host: slurm, placement: {share: false}}
workload: ./keys.yaml
kind: scale
factors: {nodes: [1, 3]}
"""
KEYS = """\
workload: keys
collections: {things: {redis: {}}}
variables: {n: {uniform: [0, 999]}}
operations:
  write: {upsert: {collection: things, id: "k${n}", document: {n: 1}}}
phases:
  - {name: write, operation: write, clients: 1, duration: 1h, stop_when: [{metric: response_p99, above: 0}]}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(*words):
    """Write the script, which has to succeed, and return its lines without remarks."""
    status, _, said = within("slurm", "small.yaml", *words)
    assert status == 0, said
    subprocess.run(["bash", "-n", "small.sbatch"], check=True)
    lines = Path("small.sbatch").read_text().replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith("#SBATCH") or (line and not line.startswith("#"))]


def test_nodes_have_the_first_machines_and_ranks_the_last(folder):
    lines = written("--generators", "2", "--ranks-per-node", "8", "--cores-per-rank", "4", "--time", "30h")
    assert "#SBATCH --nodes=5" in lines
    assert "#SBATCH --exclusive" in lines
    assert "#SBATCH --time=1-06:00:00" in lines
    assert f"#SBATCH --chdir={folder}" in lines
    (step,) = (line for line in lines if line.startswith("srun"))
    assert "--nodes=2 --relative=3 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=4" in step
    assert step.endswith("loadframe run small.yaml --yes")


def test_the_run_of_the_job_sends_metrics(folder):
    lines = written("--metrics", "0.0.0.0:9090", "--otlp", "http://127.0.0.1:4318")
    (step,) = (line for line in lines if line.startswith("srun"))
    assert step.endswith("--metrics 0.0.0.0:9090 --otlp http://127.0.0.1:4318")


def test_ranks_that_may_share_have_all_machines(folder):
    (folder / "small.yaml").write_text(EXPERIMENT.replace("share: false", "share: true"))
    lines = written("--ranks-per-node", "2", "--nodes", "4")
    assert "#SBATCH --nodes=4" in lines
    (step,) = (line for line in lines if line.startswith("srun"))
    assert "--nodes=4 --ntasks=8 --ntasks-per-node=2" in step
    assert "--relative" not in step


def test_more_is_written_where_it_belongs_and_the_time_is_what_is_expected_and_a_bit(folder):
    lines = written("--sbatch=--account=a b", "--setup", "module load x", "--output", "my results", "--again")
    assert "#SBATCH --account=a b" in lines
    assert lines.index("module load x") < next(number for number, line in enumerate(lines) if line.startswith("srun"))
    assert any(line.endswith("--output 'my results'") for line in lines)
    assert 'if [ "$status" -eq 75 ]; then sbatch small.sbatch; fi' in lines
    # A minute is expected; the least spare time is five, and the limit a multiple of five.
    assert "#SBATCH --time=00:10:00" in lines
    # The command overwrites its own script.
    assert "module load x" not in written()


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        (("host: slurm, placement: {share: false}", "host: local"), (), "would all run on the first rank's machine"),
        ((), ("--nodes", "2"), "3 nodes, 1 on a machine, need 3 machines, not 2"),
        ((), ("--sbatch", "partition"), "'partition' is not an option of sbatch"),
        ((), ("--script", "small.yaml"), "the file exists, and is not a script of `loadframe slurm`"),
        ((), ("--script", "no/such/folder.sh"), "the script cannot be written"),
        ((), ("--time", "soon"), "'soon' is not a duration"),
        ((), ("--output", "."), "the folder is not empty and does not hold an experiment"),
        ((), ("--output", "small.yaml"), "cannot write to the folder"),
        ((), ("--time", "10"), "--time 10 has no unit"),
    ],
)
def test_impossible_jobs_are_refused_without_writing_files(folder, change, words, message):
    if change:
        (folder / "small.yaml").write_text(EXPERIMENT.replace(*change))
    status, _, said = within("slurm", "small.yaml", *words)
    assert (status, message in said) == (2, True), said
    assert not (folder / "small.sbatch").exists()


def test_without_slurm_the_script_is_there_to_be_copied(folder, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    status, _, said = within("slurm", "small.yaml", "--submit")
    assert (status, "sbatch is not installed" in said) == (2, True)
    assert (folder / "small.sbatch").exists()


def test_without_a_configuration_of_slurm_the_script_is_there_to_be_copied(folder, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    # sbatch 22.05 prints this on a machine without a configuration, after asking the name server for seconds.
    sbatch.write_text("#!/bin/sh\necho 'sbatch: fatal: Could not establish a configuration source' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    status, _, said = within("slurm", "small.yaml", "--submit")
    assert (status, "no Slurm is configured on this machine" in said) == (2, True)
    assert (folder / "small.sbatch").exists()


def test_without_a_controller_the_remedy_is_to_start_or_reach_it(folder, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    words = "Batch job submission failed: Unable to contact slurm controller (connect failure)"
    sbatch.write_text(f"#!/bin/sh\necho 'sbatch: error: {words}' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    status, _, said = within("slurm", "small.yaml", "--submit")
    assert (status, "does not answer" in said, "scontrol ping" in said) == (2, True, True)
    assert "--partition" not in said


@pytest.mark.slow
def test_refusals_of_slurm_are_reported_in_its_words(slurm, folder):
    done = slurm.run(LOADFRAME, "slurm", "small.yaml", "--submit", "--sbatch=--partition=none", folder=folder)
    assert done.returncode == 2
    assert "Slurm refused the job" in done.stderr
    assert "invalid partition" in done.stderr.lower()


@pytest.mark.slow
def test_a_refused_job_keeps_the_former_script_which_a_job_may_submit_again(slurm, folder):
    assert slurm.run(LOADFRAME, "slurm", "small.yaml", folder=folder).returncode == 0
    former = (folder / "small.sbatch").read_text()
    done = slurm.run(LOADFRAME, "slurm", "small.yaml", "--submit", "--sbatch=--partition=none", folder=folder)
    assert (done.returncode, "the former script was kept" in done.stderr) == (2, True), done.stderr
    assert (folder / "small.sbatch").read_text() == former


@pytest.mark.store
@pytest.mark.timeout(1500)
def test_a_job_that_ends_before_the_last_run_is_followed_by_one_that_goes_on(slurm, folder, state):
    Path("small.yaml").write_text(BRIEF)
    Path("keys.yaml").write_text(KEYS)
    words = (LOADFRAME, "slurm", "small.yaml", "--again")
    assert slurm.run(*words, "--time", "3h", folder=folder).returncode == 0
    # The first run of a job is always tried. The second does not fit in 30 minutes, even on a fast machine.
    done = slurm.run("sbatch", "--parsable", "--time=30", "small.sbatch", folder=folder, LOADFRAME_STATE=str(state))
    assert done.returncode == 0, done.stderr
    # The job submits the script, with its own limit of 3 h.
    first = done.stdout.strip()
    slurm.wait(first, within=600)
    said = Path(f"small-{first}.log").read_text()
    assert f"job {first} of Slurm" in said
    assert "a job with --again does so itself" in said
    second = re.search(r"Submitted batch job (\d+)", said)[1]
    assert slurm.wait(second, within=600) == "COMPLETED", Path(f"small-{second}.log").read_text()
    said = Path(f"small-{second}.log").read_text()
    assert "resuming: 1 of 2 runs are already recorded" in said
    runs = [Run(path) for path in Path("results/small/runs").iterdir()]
    assert [run.summary.status for run in runs] == ["done", "done"]
    assert Path("results/small/report.html").exists()
    placed = {run.manifest.treatment["nodes"]: run.raw_manifest["store"]["addresses"] for run in runs}
    assert [address.split(":")[0] for address in placed[3]] == ["127.0.9.1", "127.0.9.2", "127.0.9.3"]
    assert list((state / "passing").iterdir()) == []
    assert [process for job in (first, second) for process in slurm.processes(job)] == []


@pytest.mark.parametrize("words", [("--again",), ("--again", "--submit"), ()])
def test_a_limit_in_which_no_run_could_finish_is_refused_before_anything_is_submitted(folder, words):
    (folder / "small.yaml").write_text(EXPERIMENT.replace("duration: 3s", "duration: 2h"))
    status, _, said = within("slurm", "small.yaml", "--time", "1h", *words)
    said = " ".join(said.split())
    assert status == 2
    assert "--time 1 h 00 min is too short for one run" in said and "takes at least 2 h" in said
    needed = re.search(r"give at least --time (\d+m)", said)[1]
    assert not (folder / "small.sbatch").exists()
    # The advised time is accepted, and a minute less is not.
    minutes = int(needed.removesuffix("m"))
    assert 120 < minutes < 130
    assert within("slurm", "small.yaml", "--time", f"{minutes - 1}m")[0] == 2
    assert within("slurm", "small.yaml", "--time", needed)[0] == 0


def test_a_job_for_an_interrupted_experiment_is_limited_by_its_remaining_time(folder):
    (folder / "small.yaml").write_text(EXPERIMENT.replace("duration: 3s", "duration: 1h"))
    experiment = load_experiment(folder / "small.yaml")
    planned = design(experiment)
    results = ExperimentFolder(folder / "results" / "small", describe(experiment, planned))
    assert "#SBATCH --time=10:05:00" in written()
    *most, last = planned.runs
    for run in most:
        (results.runs_path / run.id).mkdir()
    assert "#SBATCH --time=01:20:00" in written()
    (results.runs_path / last.id).mkdir()
    results.close()
    status, _, said = within("slurm", "small.yaml")
    said = " ".join(said.split())
    assert (status, "a job has nothing to do: all 8 runs are already recorded" in said) == (2, True), said
    assert "in another folder with --output" in said


@pytest.mark.parametrize("address", ["127.0.0.1:6379", "localhost:6379", "[::1]:6379", "10.0.0.1:6379,127.0.0.2:6379"])
def test_a_loopback_store_is_refused_because_the_machines_of_a_job_cannot_reach_it(folder, address):
    Path("small.yaml").write_text(
        f"experiment: small\nstore: {{kind: redis, hosts: '{address}'}}\nworkload: ycsb/b\nkind: scale\n"
        "factors: {clients: [1, 2]}\nduration: 3s\n"
    )
    status, _, said = within("slurm", "small.yaml")
    assert status == 2
    assert "loopback" in said
    assert not Path("small.sbatch").exists()


def test_run_outside_of_a_job_does_not_claim_that_runs_are_recorded(folder, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)
    status, _, said = within("run", "small.yaml")
    assert status == 2
    assert "not in a Slurm job" in said
    assert "record" not in said
