"""The resources of a real Slurm job."""

import time

import pytest

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import slurm as allocation
from loadframe.host.placement import Placement


@pytest.fixture
def inside(slurm, monkeypatch):
    """Put this process into an allocation of three machines for ten minutes."""
    with slurm.allocation(3, "--time=10") as environment:
        for name in ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
            monkeypatch.setenv(name, environment[name])
        yield environment["SLURM_JOB_ID"]


def test_an_allocation_is_its_machines_and_its_end(inside):
    given = allocation.require()
    assert (given.job, given.machines) == (inside, ("n1", "n2", "n3"))
    assert given.ends == pytest.approx(time.time() + 600, abs=400)
    assert allocation.addresses(given.machines) == {"n1": "127.0.9.1", "n2": "127.0.9.2", "n3": "127.0.9.3"}


def test_one_without_a_limit_is_endless(slurm, monkeypatch):
    with slurm.allocation(1) as environment:
        monkeypatch.setenv("SLURM_CONF", environment["SLURM_CONF"])
        given = allocation.of_job(environment["SLURM_JOB_ID"])
        assert given.ends is None


def test_names_in_short_form_are_spelled_out(inside):
    assert allocation.hostnames("n[1-2,4],login,c[08-10]") == ("n1", "n2", "n4", "login", "c08", "c09", "c10")
    assert allocation.hostnames("") == ()


def test_a_step_knows_its_own_machines(inside, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_ID", "4")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[2-3]")
    assert allocation.machines_of_this_step() == ("n2", "n3")
    # A batch script is a step, too, that runs on the first machine alone.
    monkeypatch.delenv("SLURM_STEP_ID")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert allocation.machines_of_this_step() == ("n1",)


def test_a_step_of_a_step_inherits_nothing_that_is_meant_for_the_first(inside, monkeypatch):
    for name in ("SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_CPU_BIND", "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("HARMLESS", "yes")
    passed_on = allocation.environment(inside)
    assert {name for name in passed_on if name.startswith(("SLURM", "PMI", "OMPI"))} == {"SLURM_CONF", "SLURM_JOB_ID"}
    assert passed_on["HARMLESS"] == "yes"


def test_outside_of_a_job_and_after_it_there_is_none(slurm, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        monkeypatch.delenv(name, raising=False)
    assert allocation.current() is None
    with pytest.raises(BadInput, match="not in a Slurm job"):
        allocation.require()
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    with pytest.raises(BadInput, match="Slurm job 99999 does not exist"):
        allocation.of_job("99999")
    with slurm.allocation(1) as environment:
        job = environment["SLURM_JOB_ID"]
    slurm.wait(job)
    with pytest.raises(BadInput, match=f"Slurm job {job} holds no machines; its state is cancelled"):
        allocation.of_job(job)


def test_machines_without_slurm_are_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="squeue is not installed, or not in PATH"):
        allocation.require()


@pytest.mark.parametrize("failing", ["squeue", "scontrol", "sinfo"])
def test_a_controller_that_fails_is_an_error_of_require_and_not_of_the_constructor(tmp_path, monkeypatch, failing):
    outputs = {"squeue": "RUNNING|NONE|n1", "scontrol": "n1", "sinfo": "n1|127.0.0.1"}
    for name, output in outputs.items():
        end = "echo cannot contact the controller >&2; exit 1" if name == failing else f"echo '{output}'"
        (tmp_path / name).write_text(f"#!/bin/sh\n{end}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    host = allocation.SlurmHost([], Placement(share=True))
    # Nodes of an earlier command may still run, so the machine does not count as one of another job.
    for ask in (host.require, lambda: host.place([]), lambda: host.machine("n1")):
        with pytest.raises(LoadframeError, match="cannot contact the controller") as error:
            ask()
        assert not isinstance(error.value, BadInput)
