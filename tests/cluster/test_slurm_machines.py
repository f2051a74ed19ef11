"""Nodes on the machines of a real Slurm job: each where it was placed, and none that outlives its command."""

import signal
import time

import psutil
import pytest

from commands import LOADFRAME, Running, open_folder
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, Placement

pytestmark = pytest.mark.store


@pytest.fixture
def job(slurm, monkeypatch):
    """Be inside a job of three machines."""
    with slurm.allocation(3) as environment:
        for name in ("SLURM_CONF", "SLURM_JOB_ID"):
            monkeypatch.setenv(name, environment[name])
        monkeypatch.delenv("SLURMD_NODENAME", raising=False)
        yield environment["SLURM_JOB_ID"]


def spec(**more):
    return ClusterSpec(store="redis", host="slurm", **more)


def left_of(slurm, job, within=100.0):
    """Return the remaining processes of a job's steps: as soon as none is left, or after `within` seconds.

    An agent without a connection ends after two minutes.
    """
    end = time.monotonic() + within
    while (left := slurm.processes(job)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def test_each_node_is_on_its_machine_and_is_seen_and_stopped_there(slurm, job, state):
    with Cluster.start(spec(nodes=3)) as cluster:
        assert [node.address.split(":")[0] for node in cluster.nodes] == ["127.0.9.1", "127.0.9.2", "127.0.9.3"]
        assert [node.machine.hostname for node in cluster.nodes] == ["n1", "n2", "n3"]
        steps = slurm.run("squeue", "--steps", "-h", "-j", job, "-o", "%j %N").stdout.splitlines()
        assert all(step.startswith("loadframe-agent-") for step in steps)
        assert sorted(step.split()[1] for step in steps) == ["n1", "n2", "n3"]
        # The process is one of the step on its machine, as Slurm sees it.
        process = psutil.Process(cluster.nodes[1].pid)
        keepers = {parent.environ().get("SLURMD_NODENAME") for parent in process.parents()[:2]}
        assert keepers == {"n2"}
        assert cluster.health().ready

        cluster.kill("node-1")
        assert [node.alive for node in cluster.nodes] == [True, False, True]
        pids = [node.pid for node in cluster.nodes]
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    assert not list((state / "passing").iterdir())


def test_no_node_outlives_a_command_that_is_killed(slurm, job, state, tmp_path):
    words = ("cluster", "up", "job", "--host", "slurm", "--store", "redis", "--nodes", "2", "--")
    environment = {**slurm.environment, "SLURM_JOB_ID": job, "LOADFRAME_STATE": str(state)}
    with Running(*words, "sh", "-c", "echo began >&2; exec sleep 300", folder=tmp_path, environment=environment) as up:
        up.wait_for("began")
        # Agents, guards and nodes on two machines.
        assert len(slurm.processes(job)) >= 6
        up.process.send_signal(signal.SIGKILL)
        up.process.wait()
        for process in slurm.processes(job):
            # Processes of the command belong to the user.
            if process.name() == "sleep":
                process.kill()
        assert left_of(slurm, job) == []


def test_no_node_outlives_a_step_that_has_lost_its_launcher(slurm, job, state):
    with Cluster.start(spec(nodes=1)) as cluster:
        launchers = [child for child in psutil.Process().children() if child.name() == "srun"]
        assert launchers
        for launcher in launchers:
            launcher.kill()
        assert left_of(slurm, job) == []
        end = time.monotonic() + 60
        while cluster.nodes[0].alive and time.monotonic() < end:
            time.sleep(0.1)
        assert not cluster.nodes[0].alive
        assert "the state of node-0 is unknown: the connection to n1 has ended" in cluster.deviations()


def test_cancelling_the_job_ends_the_nodes_and_is_reported(slurm, job, state):
    with Cluster.start(spec(nodes=2)) as cluster:
        slurm.run("scancel", job)
        end = time.monotonic() + 240
        while any(node.alive for node in cluster.nodes) and time.monotonic() < end:
            time.sleep(0.1)
        assert [node.alive for node in cluster.nodes] == [False, False]
        assert "the state of node-0 is unknown: the connection to n1 has ended" in cluster.deviations()
    assert left_of(slurm, job) == []


def test_machines_that_ranks_run_on_are_left_out_where_they_are_not_to_be_shared(job, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[1,3]")
    host = spec(placement=Placement(share=False)).place()
    assert [machine.hostname for machine in host.machines] == ["n2"]
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[1-3]")
    with pytest.raises(BadInput, match="has no machine for nodes: the generator's ranks run on all of them"):
        spec(placement=Placement(share=False, per_machine=2)).place().require()


def test_a_machine_takes_as_many_nodes_as_it_says(job):
    host = spec(machines=("n3:2", "n1")).place()
    taken = []
    for _ in range(3):
        taken.append(host.place(taken).hostname)
    assert taken == ["n3", "n1", "n3"]
    with pytest.raises(BadInput, match="the machines have slots for only 3 nodes: n3 2, n1 1"):
        host.place(taken)


def test_too_few_machines_are_said_before_anything_is_started(slurm, job, state):
    with pytest.raises(BadInput, match="the machines have slots for only 3 nodes"):
        Cluster.start(spec(nodes=4))
    experiment = (
        "experiment: e\nstore: {kind: redis, host: slurm}\nworkload: ycsb/b\nkind: scale\nfactors: {nodes: [1, 4]}"
    )
    (state / "e.yaml").write_text(experiment)
    words = (LOADFRAME, "run", state / "e.yaml", "--output", state / "results")
    done = slurm.run(*words, SLURM_JOB_ID=job, LOADFRAME_STATE=str(state))
    assert done.returncode == 2, done.stderr
    assert "the machines have slots for only 3 nodes" in done.stderr
    assert not (state / "results").exists()
    with pytest.raises(BadInput, match="machine n9 is not part of Slurm job"):
        Cluster.start(spec(machines=("n1", "n9")))
    assert not (state / "passing").exists() or not list((state / "passing").iterdir())


def asked(cluster, words):
    """Return the answer of a cluster's one node of Redis."""
    answer = cluster.store.client(cluster.addresses[0]).ask(*words.split())
    assert isinstance(answer, str)
    return answer


def test_data_of_a_job_in_a_shared_folder_are_reused_on_another_machine(slurm, state, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    for machine, words, answer in (("n1", "SET k v", "OK"), ("n2", "GET k", "v")):
        with slurm.allocation(1, f"--nodelist={machine}") as environment:
            monkeypatch.setenv("SLURM_JOB_ID", environment["SLURM_JOB_ID"])
            cluster = Cluster.start(spec(name="kept"))
            try:
                assert cluster.nodes[0].on == machine
                assert asked(cluster, words).startswith(answer)
            finally:
                cluster.stop()
    # A copy from before is not taken for the data.
    (state / "clusters/kept/node-0/.start").write_text("another start")
    with slurm.allocation(1, "--nodelist=n3") as environment:
        monkeypatch.setenv("SLURM_JOB_ID", environment["SLURM_JOB_ID"])
        with pytest.raises(BadInput, match="could not reach the data of node-0: the machine is not part of Slurm job"):
            Cluster.start(spec(name="kept"))


def test_data_on_disks_of_a_job_is_brought_home_at_its_end_and_taken_along_by_the_next(slurm, state):
    def told(job, *words):
        done = slurm.run(LOADFRAME, "cluster", *words, SLURM_JOB_ID=job["SLURM_JOB_ID"], LOADFRAME_STATE=str(state))
        assert done.returncode == 0, done.stderr
        return done.stdout

    up = ("up", "study", "--host", "slurm", "--keep-data", "--scratch")
    client = ("--", "sh", "-c", 'REDISCLI_AUTH=$LOADFRAME_PASSWORD redis-cli -u "redis://$LOADFRAME_HOST" "$@"', "sh")
    with open_folder("scratch") as scratch:
        with slurm.allocation(1, "--nodelist=n1") as job:
            told(job, *up, scratch / "one", "--store", "redis", *client, "SET", "k", "v")
            assert list((scratch / "one").rglob("node-0"))
            told(job, "down", "study", "--bring-home")
            assert not list((scratch / "one").rglob("node-0"))
            assert (state / "clusters/study/node-0").is_dir()
        with slurm.allocation(1, "--nodelist=n2") as job:
            assert told(job, *up, scratch / "two", *client, "GET", "k") == "v\n"
            assert list((scratch / "two").rglob("node-0"))
            assert not (state / "clusters/study/node-0").exists()
            told(job, "down", "study", "--delete-data")
            assert not list(scratch.rglob("node-0"))


def test_outside_of_a_job_there_are_no_machines(monkeypatch, state):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadInput, match="this process is not in a Slurm job"):
        Cluster.start(spec())


def test_a_cluster_cannot_be_kept_by_a_job(slurm, job, state):
    done = slurm.run(LOADFRAME, "cluster", "up", "kept", "--host", "slurm", "--store", "redis", SLURM_JOB_ID=job)
    assert done.returncode == 2
    assert "nodes of --host slurm stop when `cluster up` ends" in done.stderr
    assert "-- COMMAND" in done.stderr
    assert list(state.rglob("cluster.json")) == []
