"""What would happen, according to the scheduler and the current root."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bastion.client import Client
from bastion.errors import NotFoundError, SpecError
from bastion.job import JobClass
from bastion.spec import Job, Launch, Process, PythonEnv, Resources, Secret
from bundler.code import LocalDir
from tests.bastion.client.busy_bucket import (
    QUOTA,
    asking,
    client_of,
    running,
)
from tests.rigs.scripted_bastion import world


def test_a_job_that_fits_would_start() -> None:
    """On an empty machine it starts immediately, and nothing is stopped."""
    outlook = client_of({}).what_if(asking(4))
    assert [job.partition("-")[0] for job in outlook.starts] == ["new"]
    assert not outlook.stops


def test_a_share_that_is_lent_would_be_reclaimed() -> None:
    """The borrower that would be stopped is named, with the job for which it would be."""
    jobs = {
        "base-0": running("base-0", devices=(0, 1, 2, 3), job_class=JobClass.GUARANTEED),
        "extra-0": running("extra-0", devices=(4, 5, 6, 7), job_class=JobClass.BORROWED),
    }
    ((victim, by),) = client_of(jobs).what_if(asking(4)).stops
    assert victim == "extra-0"
    assert by.startswith("new-")


def test_what_can_never_run_is_told() -> None:
    """A job larger than any machine would be refused or wait forever, but not start."""
    outlook = client_of({}).what_if(asking(9))
    assert not outlook.starts
    assert outlook.refused or outlook.waits


def test_what_the_bastion_would_not_take_is_told(tmp_path: Path) -> None:
    """Refused secrets and code that could not be sent are reported alone."""
    wanted = asking(4)
    job = replace(wanted.jobs[0], secrets=[Secret("HF_TOKE")])
    outlook = client_of({}).what_if(replace(wanted, jobs=(job,)))
    told = "secrets: HF_TOKE is not declared; did you mean HF_TOKEN?"
    assert (outlook.problems, outlook.starts) == ((told,), ())
    (problem,) = client_of({}).what_if(asking(4, code=LocalDir(str(tmp_path / "none")))).problems
    assert problem.startswith("code.root: ")
    assert problem.endswith("none' is not a folder: nothing is there")
    env = PythonEnv("uv.lock")
    code = LocalDir(str(tmp_path))
    (problem, _) = client_of({}).what_if(asking(4, code=code, python=env)).problems
    assert problem == "python: uv.lock is not in the code"


def test_several_jobs_are_one_gang() -> None:
    """Jobs that start together are planned together."""
    process = Process(["true"], resources=Resources(h100=2))
    jobs = tuple(Job(name=name, processes=(process,)) for name in ("a", "b"))
    assert len(client_of({}).what_if(Launch(name="new", jobs=jobs)).starts) == 2


def test_another_quota_would_demote() -> None:
    """A job that would leave its project's share is named before the file is applied."""
    jobs = {"base-0": running("base-0", devices=(0, 1, 2, 3), job_class=JobClass.GUARANTEED)}
    smaller = QUOTA.replace(
        "[project_resources.blue]\nh100 = 0.5", "[project_resources.blue]\nh100 = 0.25"
    )
    foreseen = client_of(jobs).what_if_quota(smaller)
    assert foreseen.outlook.demoted == ("base-0",)
    assert [change.project for change in foreseen.change.shares] == ["blue"]


def test_without_a_root_there_is_nothing_to_foresee() -> None:
    """If no bastion ever ran, or the new file is wrong, the error says so."""
    store, clock = world()
    client = Client("memory:", user="ada", store=store, clock=clock)
    with pytest.raises(NotFoundError):
        client.what_if_quota(QUOTA)
    with pytest.raises(SpecError, match="quota file: line 1"):
        client_of({}).what_if_quota("")
