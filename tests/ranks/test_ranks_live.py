"""Real ranks, started by a real mpirun: their joint recording, and the effects of a rank that dies."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from commands import LOADFRAME, PATIENCE, Running, loadframe, open_folder
from loadframe.record import Run

pytestmark = pytest.mark.store

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "several-generators.md"

WORKLOAD = """\
workload: small
collections: {trips: {elasticsearch: {}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 120}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 10}}
  look: {search: {collection: trips, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 3, until: exhausted}
  - {name: look, operation: look, clients: 6, warmup: 500ms, duration: SECONDS}
  - {name: some, operation: look, clients: 6, requests: 240}
"""


@pytest.fixture
def workload(monkeypatch):
    """A folder to work in, with a workload; its `look` takes 2 s."""
    with open_folder("ranks") as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        Path("small.yaml").write_text(WORKLOAD.replace("SECONDS", "2s"))
        Path("long.yaml").write_text(WORKLOAD.replace("SECONDS", "10m"))
        yield folder


def bench(*words):
    return ("bench", *words, "--store", "sim", "--seed", "5")


def of_rank(launcher: int, rank: int) -> list[psutil.Process]:
    """Return the processes of a rank among all that a launcher has started."""
    ranks = []
    for process in psutil.Process(launcher).children(recursive=True):
        try:
            number = process.environ().get("OMPI_COMM_WORLD_RANK")
        except psutil.Error:
            continue
        if number == str(rank) and "loadframe" in " ".join(process.cmdline()):
            ranks.append(process)
    return ranks


def wait_until_gone(processes: list[psutil.Process], seconds: float) -> None:
    _, alive = psutil.wait_procs(processes, seconds)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_ranks_send_the_requests_of_one_process_and_are_in_the_record(workload):
    alone = loadframe(*bench("small.yaml", "--output", "alone"))
    assert alone.returncode == 0, alone.stderr
    together = loadframe(*bench("small.yaml", "--output", "together", "--ranks", "3"))
    assert together.returncode == 0, together.stderr
    one, three = Run(Path("alone")), Run(Path("together"))
    for name in ("fill", "some"):
        counts = []
        for run in (one, three):
            (phase,) = [phase for phase in run.summary.phases if phase.name == name]
            (operation,) = phase.operations.values()
            counts.append((operation.requests, operation.successes, operation.documents, operation.response.count))
        assert counts[0] == counts[1]
    generator = three.raw_manifest["generator"]
    assert (generator["ranks"], [member["rank"] for member in generator["members"]]) == (3, [0, 1, 2])
    look = three.summary.phases[1]
    assert [rank.rank for rank in look.ranks] == [0, 1, 2]
    assert sum(rank.requests for rank in look.ranks) == look.operations["look"].requests
    assert all(rank.machine == os.uname().nodename for rank in look.ranks)
    assert "ranks" not in one.raw_summary["phases"][0] and "members" not in one.raw_manifest["generator"]
    assert three.summary.verdict is not None


def test_ranks_of_one_machine_listen_on_loopback_alone(workload):
    with Running(*bench("long.yaml", "--output", "kept", "--ranks", "2"), folder=workload) as command:
        command.wait_for("phase look", "1 s:")
        ranks = [process for rank in (0, 1) for process in of_rank(command.process.pid, rank)]
        listening = [one.laddr.ip for process in ranks for one in process.net_connections() if one.status == "LISTEN"]
        command.send(signal.SIGINT)
    assert listening, "rank 0 listens for the others"
    assert set(listening) <= {"127.0.0.1", "::1"}


def test_a_rank_that_dies_ends_all_and_measurements_are_kept(workload):
    words = bench("long.yaml", "--output", "kept", "--ranks", "3")
    with Running(*words, folder=workload) as command:
        command.wait_for("phase look", "2 s:")
        everything = psutil.Process(command.process.pid).children(recursive=True)
        (victim,) = of_rank(command.process.pid, 2)
        victim.kill()
        began = time.monotonic()
        status = command.process.wait(PATIENCE)
        wait_until_gone(everything, 30)
    assert status == 1, command.stderr
    assert time.monotonic() - began < 120
    assert ("rank 2" in command.stderr and "a rank died" in command.stderr) or "rank 2 on" in command.stderr
    kept = Run(Path("kept")).summary
    assert kept.status == "failed" and kept.fault == "generator"
    assert kept.phases[1].operations["look"].requests > 0


def test_killing_rank_0_keeps_measurements_and_leaves_no_process(workload):
    with Running(*bench("long.yaml", "--output", "kept", "--ranks", "3"), folder=workload) as command:
        command.wait_for("phase look", "3 s:")
        everything = psutil.Process(command.process.pid).children(recursive=True)
        launched, recording = sorted(of_rank(command.process.pid, 0), key=lambda process: process.create_time())
        assert recording.ppid() == launched.pid
        recording.kill()
        assert command.process.wait(PATIENCE) == 1
        wait_until_gone(everything, 60)
    assert "rank 0 was killed" in command.stderr and "Traceback" not in command.stderr
    reported = loadframe("report", "kept")
    assert reported.returncode == 0, reported.stderr
    assert "The run failed: rank 0 was killed in phase look" in reported.stdout and "INVALID" in reported.stdout
    kept = Run(Path("kept"))
    assert (kept.summary.status, kept.summary.fault) == ("failed", "generator")
    fill, look = kept.summary.phases
    assert fill.operations["fill"].documents == 120 and look.operations["look"].requests > 0
    assert len(kept.manifest.generator.members) == 3


def test_an_interrupt_reaches_rank_0_which_keeps_the_run(workload):
    with Running(*bench("long.yaml", "--output", "kept", "--ranks", "2"), folder=workload) as command:
        command.wait_for("phase look", "2 s:")
        everything = psutil.Process(command.process.pid).children(recursive=True)
        status, _ = command.send(signal.SIGINT)
        wait_until_gone(everything, 30)
    assert status == 130
    assert Run(Path("kept")).summary.status == "interrupted"


#: Connects to each Unix socket of ranks that this user can see, and prints the data received.
ATTACKER = """
import os, re, socket, time
os.setgroups([]); os.setgid(12345); os.setuid(12345)
end, got = time.monotonic() + 300, {}
while os.getppid() != 1 and time.monotonic() < end:
    for name in re.findall(r"\\S*loadframe-\\S+", open("/proc/net/unix").read()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.settimeout(1)
            try:
                line.connect("\\0" + name[1:] if name[0] == "@" else name)
                descriptors = socket.recv_fds(line, 16, 3)[1]
                line.send(b"\\0")
                print("got", len(descriptors), flush=True)
            except OSError as error:
                got.setdefault(type(error).__name__, print("tried:", type(error).__name__, flush=True))
    time.sleep(0.001)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_gets_no_terminal_and_the_command_does_its_work(workload):
    attacker = subprocess.Popen([sys.executable, "-c", ATTACKER], stdout=subprocess.PIPE, text=True)
    try:
        done = loadframe(*bench("small.yaml", "--output", "kept", "--ranks", "2"))
    finally:
        attacker.kill()
        said, _ = attacker.communicate()
    assert "got" not in said
    assert done.returncode == 0, done.stderr
    assert Run(Path("kept")).summary.status == "done"


EXPERIMENT = """\
experiment: cancelled
store: {kind: sim}
workload: ./small.yaml
kind: scale
prepare: [fill]
measure: [look]
warmup: 0s
duration: 5s
factors: {nodes: [1], clients: [2, 4]}
"""


def launchers(command):
    """Return mpirun's process of a command with ranks."""
    (mpirun,) = [process for process in psutil.Process(command.process.pid).children() if "prterun" in process.name()]
    return mpirun


CANCELLATIONS = {
    "SIGTERM without ranks": ((), lambda command: command.process.terminate()),
    "SIGTERM": (("--ranks", "2"), lambda command: command.process.terminate()),
    "SIGHUP": (("--ranks", "2"), lambda command: command.process.send_signal(signal.SIGHUP)),
    "killed command": (("--ranks", "2"), lambda command: command.process.kill()),
    "killed mpirun": (("--ranks", "2"), lambda command: launchers(command).kill()),
}


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(how, marks=[] if how in ("SIGTERM", "killed mpirun") else [pytest.mark.trial])
        for how in CANCELLATIONS
    ],
)
def test_a_run_that_was_cancelled_from_outside_is_made_again(workload, how):
    Path("e.yaml").write_text(EXPERIMENT)
    ranks, cancel = CANCELLATIONS[how]
    with Running("run", "e.yaml", *ranks, folder=workload) as command:
        command.wait_for("run 2 of 2", "phase look", "1 s:")
        everything = psutil.Process(command.process.pid).children(recursive=True)
        cancel(command)
        status = command.process.wait(PATIENCE)
        wait_until_gone(everything, PATIENCE)
        assert status not in (0, 1), command.stderr
        assert "Traceback" not in command.stderr
    runs = Path("results/cancelled/runs")
    assert [Run(path).summary.status for path in runs.iterdir() if not path.name.startswith(".")] == ["done"]
    again = loadframe("run", "e.yaml", *ranks)
    assert again.returncode == 0, again.stderr
    assert [Run(path).summary.status for path in runs.iterdir()] == ["done", "done"]
    # Another session of this user may have its ranks now.
    left = [path for path in Path("/dev/shm").glob(f"loadframe-ranks-{os.geteuid()}-*") if not is_held(path)]
    assert left == []


def is_held(path):
    """Whether a process uses a workspace."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return not path.exists()


def test_an_interrupt_of_the_users_own_mpirun_keeps_the_run(workload):
    mpirun = Path(sys.executable).with_name("mpirun")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words = (*root, "--oversubscribe", "-n", "2", LOADFRAME, *bench("long.yaml", "--output", "kept"))
    with Running(*words, folder=workload, program=mpirun) as command:
        command.wait_for("phase look", "2 s:")
        everything = psutil.Process(command.process.pid).children(recursive=True)
        command.send(signal.SIGINT)
        # Rank 0 continues until its record is complete.
        wait_until_gone(everything, PATIENCE)
    kept = Run(Path("kept")).summary
    assert kept.status == "interrupted" and kept.phases[1].operations["look"].requests > 0


def test_an_mpirun_of_the_users_own_starts_ranks_as_well(workload, monkeypatch):
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert mpirun
    # As root, with the variables that the docs list.
    allowed = dict(re.findall(r"(OMPI_\w+)=(1)", PAGE.read_text()))
    assert len(allowed) == 2
    for name, value in allowed.items():
        monkeypatch.setenv(name, value)
    before = (mpirun, "--oversubscribe", "-n", "2")
    done = loadframe(*bench("small.yaml", "--output", "theirs"), before=before)
    assert done.returncode == 0, done.stderr
    assert Run(Path("theirs")).raw_manifest["generator"]["ranks"] == 2
    # More than were started: said, and nothing is started.
    refused = loadframe(*bench("small.yaml", "--ranks", "5"), before=before)
    assert refused.returncode == 2
    assert "5 ranks requested, but only 2 were started" in refused.stderr
    Path("few.yaml").write_text(WORKLOAD.replace("120", "1").replace("SECONDS", "2s"))
    few = loadframe(*bench("few.yaml"), before=before)
    assert few.returncode == 2 and "trips has 1 document for 2 ranks" in few.stderr
    wrong = loadframe("bench", "no-such-workload", before=before)
    assert wrong.returncode == 2 and "Traceback" not in wrong.stderr


def test_a_launcher_of_another_mpi_is_seen(workload):
    environment = {**os.environ, "PMI_RANK": "0", "PMI_SIZE": "4"}
    refused = loadframe(*bench("small.yaml"), env=environment)
    assert refused.returncode == 2
    assert "PMI started 4 ranks, but" in refused.stderr and "another MPI" in refused.stderr
    # The other ranks end without a message.
    other = loadframe(*bench("small.yaml"), env={**environment, "PMI_RANK": "3"})
    assert (other.returncode, other.stdout) == (2, "")


def test_without_mpi_it_is_not_imported(workload):
    probe = (
        "import sys\nfrom loadframe.cli import main\n"
        "try: main(['stores', '--json'])\nfinally: print('mpi4py' in sys.modules, file=sys.stderr)"
    )
    done = loadframe(before=(sys.executable, "-c", probe))
    assert done.stderr.strip().endswith("False")
    assert json.loads(done.stdout)


def test_ranks_are_a_factor_of_an_experiment(workload):
    experiment = """\
experiment: ranks
store: {kind: sim}
workload: ./small.yaml
kind: scale
prepare: [fill]
measure: [some]
factors: {ranks: [1, 2], nodes: [1]}
"""
    Path("e.yaml").write_text(experiment)
    refused = loadframe("run", "e.yaml")
    assert refused.returncode == 2
    assert "2 ranks are required, but this command was started as one" in refused.stderr
    Path("more.yaml").write_text(experiment.replace("[1, 2]", "[1, 2, 3]"))
    assert "start it with --ranks 3" in loadframe("run", "more.yaml").stderr
    done = loadframe("run", "e.yaml", "--ranks", "2")
    assert done.returncode == 0, done.stderr
    runs = [Run(path) for path in Path("results/ranks/runs").iterdir() if not path.name.startswith(".")]
    taken = {run.manifest.treatment["ranks"]: len(run.manifest.generator.members) for run in runs}
    assert taken == {1: 0, 2: 2}
    assert {run.summary.phases[0].operations["look"].requests for run in runs} == {240}
