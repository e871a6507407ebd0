"""Keys: what was written is parsed, and text order equals number order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.machine_name import parse_machine, pool_of
from bastion.records.keys import layout, ulid
from bastion.store.keys import is_key

NAMES = st.from_regex(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,20}[A-Za-z0-9])?", fullmatch=True)
NUMBERS = st.integers(0, 10**9)


@given(NAMES, NAMES, st.sampled_from(["launch", "cancel"]), st.binary(min_size=10, max_size=10))
def test_a_requests_name_is_its_identity(project: str, user: str, verb: str, random: bytes) -> None:
    """Project, user, ULID and verb are read from the key as they were put into it."""
    name = ulid.make(1.7e9, random)
    key = layout.request(project, user, name, verb)
    assert is_key(key)
    assert layout.parse_request(key) == layout.RequestName(
        project=project, user=user, ulid=name, verb=verb
    )
    assert layout.parse_bell(key) is None
    assert key.startswith(layout.user_inbox(project, user))


@given(NAMES, st.integers(1, 10**6), NUMBERS)
def test_a_bells_name_says_which_machine_rang(machine: str, life: int, number: int) -> None:
    """Machine, life and number are read from the key as they were put into it."""
    key = layout.bell(machine, life, number)
    assert layout.parse_bell(key) == (machine, life, number)
    assert layout.parse_request(key) is None


@given(st.lists(NUMBERS, min_size=2))
def test_numbers_sort_as_numbers(numbers: list[int]) -> None:
    """Segments, bells and instructions are listed in the order of their numbers."""
    for key in (
        layout.events,
        lambda n: layout.bell("m", 1, n),
        lambda n: layout.instructions("m", 1, n),
    ):
        keys = [key(number) for number in numbers]
        assert sorted(keys) == [key(number) for number in sorted(numbers)]


@given(NAMES, NAMES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_log_segment_names_its_stream(
    project: str, job: str, attempt: int, replica: int, host: int, process: int
) -> None:
    """The stream of a segment is read from its key, and nothing else is a segment."""
    prefix = layout.log(project, job, attempt, replica=replica, host=host, process=process)
    assert prefix.startswith(layout.job_logs(project, job))
    found = layout.parse_log(f"{prefix}{layout.padded(7)}.log")
    assert found == layout.LogStream(attempt=attempt, replica=replica, host=host, process=process)
    assert layout.parse_log(prefix) is None


@given(st.text(alphabet="ab/é", min_size=1, max_size=900))
def test_anything_can_be_set_aside(key: str) -> None:
    """However long the name of a bad object is, its key aside is unique."""
    place = layout.aside(key)
    assert is_key(place)
    assert place.count("/") == 2


def test_after_is_behind_everything_of_a_folder() -> None:
    """`after` sorts behind every name in the folder and before every other user's."""
    behind = layout.after("inbox/p/ann/")
    assert all(f"inbox/p/ann/{name}" < behind for name in ("0", "zz", "~", "é"))
    assert behind < "inbox/p/ann0/x"
    assert behind < "inbox/p/anna/x"


def test_what_an_agent_writes_lies_below_its_pool() -> None:
    """A machine's registers, lives and bells are in its pool's folder; its instructions are not."""
    for machine, pool in (("gpu-1-0", "gpu"), ("gpu-1-2-0", "gpu-1"), ("gpu-1-0-h3", "gpu")):
        where: Any = {"replica": 0, "host": 2, "machine": machine}
        assert layout.claim("p", "j", 1, "n", **where).startswith(f"run/{pool}/p/")
        assert layout.end("p", "j", 1, "n", **where).startswith(f"run/{pool}/p/")
        assert layout.life(machine, 1).startswith(f"machines/{pool}/{machine}/")
        assert layout.bell(machine, 1, 1).startswith(f"inbox/_bell/{pool}/{machine}/")
        assert layout.instructions(machine, 1, 1).startswith(f"instructions/{pool}/{machine}/")


def test_a_name_below_anothers_pool_is_nothing() -> None:
    """Bells, lives and instructions only count below the pool in the machine's name."""
    assert layout.parse_bell("inbox/_bell/blue/red-1-0/000001-000000000001.json") is None
    assert layout.parse_life("machines/blue/red-1-0/life/000001") is None
    assert layout.parse_instructions("instructions/blue/red-1-0/1/000000000001.json") is None


@pytest.mark.parametrize("digits", ["9" * 16, "9" * 5000, "٣"])
def test_absurd_numbers_are_no_numbers_of_ours(digits: str) -> None:
    """A key with too many digits, or digits of another script, is no key."""
    n, attempt = digits, f"a{digits}-n"
    assert layout.parse_bell(f"inbox/_bell/gpu/gpu-1-0/{n}-000000000001.json") is None
    assert layout.parse_bell(f"inbox/_bell/gpu/gpu-1-0/000001-{n}.json") is None
    assert layout.parse_life(f"machines/gpu/gpu-1-0/life/{n}") is None
    assert layout.parse_instructions(f"instructions/gpu/gpu-1-0/1/{n}.json") is None
    assert layout.parse_register(f"run/gpu/p/j/{attempt}/r0/h0/claim") is None
    assert layout.parse_register(f"run/gpu/p/j/a1-n/r{n}/h0/end") is None
    assert layout.parse_register(f"go/p/j/{attempt}") is None
    assert layout.parse_events(f"state/log/{n}.jsonl") is None
    assert layout.parse_snapshot(f"state/snap/2026-01-01/{n}.json") is None
    assert layout.parse_log(f"logs/p/j/a1/r0/h0/p0/{n}.log") is None
    assert layout.parse_saved_output(f"output/p/j/saved/a1/r0/h0/{n}.json") is None
    assert parse_machine(f"gpu-{n}-0", "gpu") is None
    assert pool_of(f"gpu-{n}-0") == f"gpu-{n}-0"


@given(st.floats(0, 1e11), st.binary(min_size=10, max_size=10))
def test_a_ulid_knows_its_time(seconds: float, random: bytes) -> None:
    """A ULID contains its time, to the millisecond, and sorts by it."""
    made = ulid.make(seconds, random)
    assert ulid.is_ulid(made)
    assert ulid.seconds_of(made) == pytest.approx(seconds, abs=0.002)
    assert made <= ulid.make(seconds + 0.002, random)


@pytest.mark.parametrize("text", ["", "0" * 25, "8" + "0" * 25, "0" * 25 + "U", "0" * 25 + "a"])
def test_what_is_no_ulid(text: str) -> None:
    """Wrong length, a time beyond 48 bits, a letter outside the alphabet: none is a ULID."""
    assert not ulid.is_ulid(text)


@given(NAMES, NAMES, st.integers(1, 99), NUMBERS, NUMBERS, NUMBERS)
def test_every_name_that_is_read_back_is_as_it_was_written(
    project: str, job: str, attempt: int, replica: int, host: int, number: int
) -> None:
    """Each parser reads what its writer wrote, and accepts no other keys."""
    register = layout.RegisterName(
        project=project, job=job, attempt=attempt, nonce="n1", replica=replica, host=host, kind="",
        pool="gpu",
    )  # fmt: skip
    where = (project, job, attempt, "n1")
    on: Any = {"replica": replica, "host": host, "machine": "gpu-1-0"}
    written = {
        layout.claim(*where, **on): replace(register, kind="claim"),
        layout.end(*where, **on): replace(register, kind="end"),
        layout.go(*where): replace(register, pool="", replica=0, host=0, kind="go"),
        layout.life(job, number): (job, number),
        layout.instructions(job, attempt, number): (job, attempt, number),
        layout.answer(project, job, "01X"): (project, job, "01X"),
        layout.snapshot("2026-11-21", number): ("2026-11-21", number),
        layout.events(number): number,
        layout.result(project, job): (project, job),
        layout.spec(project, job): (project, job),
    }
    parsers = (
        layout.parse_register, layout.parse_life, layout.parse_instructions, layout.parse_answer,
        layout.parse_snapshot, layout.parse_events, layout.parse_result, layout.parse_spec,
    )  # fmt: skip
    for key, wanted in written.items():
        read = [found for parse in parsers if (found := parse(key)) is not None]
        assert read == [wanted], key


def test_a_bastion_may_be_called_like_a_project() -> None:
    """A bastion's own log and a project's logs are never in the same place."""
    logs = layout.job_logs("research", "j-1")
    tail, segments = layout.bastion_log("research"), layout.bastion_log_segments("research")
    assert not logs.startswith((f"{tail}/", segments))
    assert not segments.startswith(f"{tail}/")
    assert layout.bastion_log("research-bastion") == "logs/research-bastion"
