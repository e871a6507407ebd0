"""Records read without the validator equal those that it reads; it gets the rest."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bastion.errors import RecordError, SpecError
from bastion.records.coding.codec import decode, encode
from bastion.records.coding.well_formed import UNEXPECTED, well_formed
from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest, SpecRecord
from bastion.records.requests.result import Result
from bastion.spec import (
    Array,
    Indices,
    Job,
    Launch,
    Process,
    PythonEnv,
    Request,
    Resources,
    Secret,
    Where,
)
from bundler.code import BundleRef, GitRef
from quota import Amounts

GANG = Launch(
    name="gang",
    jobs=(
        Job(name="a", replicas=3, processes=(Process("echo $HOME", shell=True),), grace="1m"),
        Job(name="b", processes=(Process(["true", "ü"], env={"A": "b"}),), hold=True),
    ),
    where=Where(cluster="c", hostnames=("h1",), labels={"a": "b"}, exclusive=True),
    code=GitRef(url="https://example.org/x.git", commit="a" * 40),
    when_busy="fail",
)
ARRAY = Launch(
    name="many",
    jobs=(
        Job(
            processes=(
                Process(
                    ["true"], resources=Resources(cpu=1, memory="2GiB"), secrets=(Secret("TOKEN"),)
                ),
            ),
            max_runtime=5,
            after=("other-0123456789:any",),
        ),
    ),
    project="blue",
    array=Array("0-99%10"),
    code=BundleRef(digest="a" * 64),
    python=PythonEnv(lock="requirements.txt"),
    where=Where(pool="one"),
    notify=("slack",),
)
RECORDS = (
    Answer(ulid="01", verb="launch", accepted=True, launch="a-1", jobs=("a-1",), at=1.5),
    LaunchRequest(launch=GANG),
    LaunchRequest(launch=ARRAY, idempotency_key="once"),
    SpecRecord(id="i", project="p", user="u", ulid="01", launch=GANG),
    JobsRequest(targets=("a-0123456789", "b-0123456789.0-4")),
    Result(
        id="i",
        project="p",
        user="u",
        launch="l",
        name="n",
        outcome="failed",
        text="exited with code 1: ü",
        code=-9,
        submitted_at=1.0,
        ended_at=2.0,
        request=Request(per_replica=Amounts({"h100": 8})),
        report={"loss": 0.5},
        tasks={"succeeded": Indices.parse("0-3,9")},
    ),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_good_record_is_read_without_the_validator(record: Any) -> None:
    """It is the same value, including the types of its contents."""
    found = well_formed(type(record), encode(record))
    assert found is not UNEXPECTED
    assert repr(found) == repr(decode(type(record), encode(record), key="k")) == repr(record)


ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.0, 2**70, "", "x", "0-4", [], ["a"], {}, {"a": 1}, [[]], "8h", 1e999,
)  # fmt: skip


@given(st.sampled_from(RECORDS), st.integers(0, 2**32))
def test_what_is_read_is_what_the_validator_reads(record: Any, seed: int) -> None:
    """A record with any change is read as by the validator, or left to it."""
    drawn = random.Random(seed)
    body = json.loads(encode(record))
    for _ in range(drawn.randint(1, 2)):
        _change(body, drawn)
    data = json.dumps(body).encode()
    found = well_formed(type(record), data)
    if found is not UNEXPECTED:
        assert repr(found) == repr(decode(type(record), data, key="k"))


def _change(body: Any, drawn: random.Random) -> None:
    """Change, remove or add one thing somewhere in `body`."""
    while True:
        places = list(body) if isinstance(body, dict) else list(range(len(body)))
        if not places:
            return
        place = drawn.choice(places)
        if isinstance(body[place], (dict, list)) and body[place] and drawn.random() < 0.8:
            body = body[place]
            continue
        if isinstance(body, dict) and drawn.random() < 0.3:
            body["strange" if drawn.random() < 0.5 else "kind"] = deepcopy(drawn.choice(ODD))
        elif drawn.random() < 0.3:
            del body[place]
        else:
            body[place] = deepcopy(drawn.choice(ODD))
        return


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"schema":2,"ulid":"1","verb":"v","accepted":true}',
        b'{"schema":true,"ulid":"1","verb":"v","accepted":true}',
        b'{"ulid":"1","verb":"v","accepted":1}',
        b'{"ulid":"\\ud800","verb":"v","accepted":true}',
        b'{"ulid":"1","verb":"v","accepted":true,"at":NaN}',
        b'{"ulid":"1","verb":"v","accepted":true,"more":1}',
        b'{"ulid":"1","verb":"v"}',
    ],
)
def test_what_is_unexpected_is_left_to_the_validator(data: bytes) -> None:
    """Only it judges, and reports what is wrong."""
    assert well_formed(Answer, data) is UNEXPECTED


def test_the_words_for_a_bad_record_are_the_validators() -> None:
    """Programs that have not imported the validator report bad records identically."""
    program = (
        "import sys; from bastion.records.coding.codec import decode;"
        "from bastion.records.requests.answer import Answer;"
        'good = decode(Answer, b\'{"ulid":"1","verb":"v","accepted":true}\', key=\'k\');'
        "print('pydantic' in sys.modules)\n"
        'try: decode(Answer, b\'{"ulid":1,"verb":"v","accepted":true}\', key=\'k\')\n'
        "except Exception as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    with pytest.raises(RecordError) as bad:
        decode(Answer, b'{"ulid":1,"verb":"v","accepted":true}', key="k")
    assert told.stdout.splitlines() == ["False", str(bad.value)]


def test_a_value_that_refuses_itself_is_left_to_the_validator() -> None:
    """The checks of a value run when it is made."""
    with pytest.raises(SpecError):
        JobsRequest(targets=())
    assert well_formed(JobsRequest, b'{"targets":[]}') is UNEXPECTED


def test_a_target_that_is_too_long_is_named_with_what_to_do() -> None:
    """A user who typed `grid.0-398:2` sees the result."""
    tasks = ",".join(map(str, range(0, 400, 2)))
    with pytest.raises(SpecError, match=r"'grid-0123456789\.0,2,4,6.* name ranges without gaps"):
        JobsRequest(targets=(f"grid-0123456789.{tasks}",))
