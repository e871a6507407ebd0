"""Job specs of AXLearn as launches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bastion.compat import files
from bastion.compat.axlearn import to_launch
from bastion.errors import SpecError


def spec_of(*, metadata: Mapping[str, object] | None = None, **more: object) -> str:
    """A job spec as AXLearn serializes one, with changes."""
    spec = {
        "version": 1,
        "name": "notebook-tpu-alice-a59ce1",
        "command": "python3 -c 'import jax; print(jax.devices())'",
        "cleanup_command": None,
        "env_vars": {"HF_HOME": "/cache"},
        "metadata": {
            "user_id": "user1",
            "project_id": "project1",
            "creation_time": "2024-05-01 12:00:00.000001",
            "resources": {"v4": 32},
            "priority": 2,
            "job_id": "abc",
            **(metadata or {}),
        },
        **more,
    }
    return json.dumps(spec)


def test_everything_is_mapped() -> None:
    """Name, command, variables, project, priority and the slice; the rest is noted."""
    found = to_launch(spec_of(), user="ada")
    launch = found.launch
    assert (launch.name, launch.project) == ("notebook-tpu-alice-a59ce1", "project1")
    (job,) = launch.jobs
    assert job.processes[0].command == ("python3", "-c", "import jax; print(jax.devices())")
    assert (job.instance_type, job.priority, job.env) == ("tpu-v4-32", 2, {"HF_HOME": "/cache"})
    assert launch.description == (
        "from AXLearn: job_id abc, user_id user1, creation_time 2024-05-01 12:00:00.000001"
    )
    assert [note.partition(":")[0] for note in found.notes] == [
        "metadata.user_id",
        "metadata.creation_time",
        "command",
    ]
    assert len(to_launch(spec_of(), user="user1").notes) == 2


def test_a_spec_that_says_nothing_of_itself_is_said_to_be_from_axlearn() -> None:
    """There is no colon without text after it."""
    nothing = {"job_id": None, "user_id": None, "creation_time": None}
    assert to_launch(spec_of(metadata=nothing), user="ada").launch.description == "from AXLearn"


def test_a_cleanup_command_runs_when_the_processes_are_dead() -> None:
    """It runs on the hosts themselves, with a note."""
    found = to_launch(spec_of(cleanup_command="rm -rf '/tmp/my run'"), user="user1")
    assert found.launch.jobs[0].on_end == ("rm", "-rf", "/tmp/my run")
    assert found.notes[-1].startswith("cleanup_command: runs on every host")


def test_a_job_may_ask_for_devices_or_nothing() -> None:
    """Types that are no slices are requested as they are; no priority means the lowest."""
    (job,) = to_launch(spec_of(metadata={"resources": {"h100": 8}})).launch.jobs
    assert (job.instance_type, dict(job.per_replica.items())) == ("", {"h100": 8})
    text = '{"version": 1, "name": "a", "command": "true", "metadata": {}}'
    (job,) = to_launch(text).launch.jobs
    assert (dict(job.per_replica.items()), job.priority, job.env) == ({}, 5, {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: .*recursion"),
        ('{"version": 1, "metadata": []}', r"metadata: \[\] is not an object"),
        (spec_of(metadata={"resources": []}), r"metadata.resources: \[\] is not an object"),
        (spec_of(metadata={"project_id": 0}), "project: 0 is not text"),
        (spec_of(cleanup_command=False), "cleanup_command: False is not text"),
        (spec_of(env_vars=[]), "env: list.* is not a table"),
        ("[]", "a job spec is one JSON object"),
        (spec_of(version=2), "version: 2 is not known; allowed: 1"),
        (spec_of(max_tries=3), "max_tries: unknown; known are version, name"),
        (spec_of(metadata={"tier": 1}), "metadata.tier: unknown; known are user_id"),
        (spec_of(cleanup_command=["rm"]), r"cleanup_command: \['rm'\] is not text"),
        (spec_of(cleanup_command="rm 'x"), "cleanup_command: no closing quotation"),
        (spec_of(command="echo 'x"), "command: no closing quotation"),
        (spec_of(command=["a"]), r"command: \['a'\] is not text"),
        (spec_of(command=""), "command: .* at least one string"),
        (spec_of(metadata={"resources": {"v4": 12}}), "there is no slice tpu-v4-12"),
        (spec_of(metadata={"resources": {"v4": 8, "cpu": 1}}), "a TPU slice and something else"),
        (spec_of(metadata={"resources": {"h100": 0}}), "h100: 0 is not a whole number above"),
        (spec_of(metadata={"resources": [1]}), r"resources: \[1\] is not an object"),
        (spec_of(metadata={"priority": 9}), "priority: 9 is not allowed"),
        (spec_of(name="a b"), "name: 'a b' is not a name"),
        ('{"version": 1, "metadata": 3}', "metadata: 3 is not an object"),
    ],
)
def test_what_is_wrong_is_told(text: str, problem: str) -> None:
    """Each error has its own text, with its path."""
    with pytest.raises(SpecError, match=problem):
        to_launch(text)


def test_a_file_takes_no_arguments(tmp_path: Path) -> None:
    """Words behind a job spec are refused: its command stands in it."""
    file = tmp_path / "job.json"
    file.write_text(spec_of())
    assert files.read(file, user="user1").launch.name == "notebook-tpu-alice-a59ce1"
    with pytest.raises(SpecError, match=r"job\.json: takes no arguments"):
        files.read(file, arguments=["--x"])
