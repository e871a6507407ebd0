"""Values to JSON and back, and the messages for unreadable records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bastion.errors import ForeignRecordError, RecordError, SpecError
from bastion.job import OutcomeKind, PastAttempt
from bastion.machine import Batch
from bastion.records.coding.codec import decode, decode_known, encode, plain
from bastion.records.reports.facts import Bell, Claimed, Drained, Health, Hello, HostFact, Started
from bastion.records.requests.answer import Answer
from bastion.records.requests.job_request import JobsRequest
from bastion.records.requests.launch_request import LaunchRequest, SpecRecord
from bastion.records.requests.result import Result
from bastion.spec import (
    BundleRef,
    CodeRef,
    GitRef,
    ImageRef,
    Job,
    Launch,
    Process,
    Resources,
    Where,
)
from quota import Amounts

OF = HostFact(project="p", job="j", attempt=1, nonce="n", replica=0, host=0)


def launch() -> Launch:
    """Return a launch that uses everything a user can write."""
    process = Process(
        ["python3", "train.py", "ü"],
        resources=Resources(h100=2, memory="64GiB"),
        env={"A": "b c"},
    )
    job = Job(
        name="trainer",
        replicas=3,
        processes=(process, Process("echo $HOME", shell=True)),
        on_failure="continue",
        scope="launch",
        max_runtime="8h",
        retries=2,
        grace="1m",
        hold=True,
    )
    where = Where(cluster="c", hostnames=("h1",), labels={"a": "b"}, exclusive=True)
    code = GitRef(url="https://example.org/x.git", commit="a" * 40)
    return Launch(name="exp", jobs=(job,), project="blue", where=where, code=code, when_busy="fail")


@pytest.mark.parametrize(
    "record",
    [
        LaunchRequest(launch=launch()),
        SpecRecord(id="i", project="p", user="u", ulid="01", launch=launch()),
        Answer(ulid="01", verb="launch", accepted=False, problems=("a", "b")),
        Result(
            id="i",
            project="p",
            user="u",
            launch="l",
            name="n",
            outcome="failed",
            text="t",
            code=-9,
            submitted_at=1.0,
            ended_at=2.5,
        ),
        Bell(
            facts=(
                Hello(resources=Amounts({"h100": 8}), address="a", hostname="h", version="1"),
                Started(of=OF),
                Drained(of=OF),
                Health(bad_devices={"h100": (1, 2)}, text="XID 79"),
            )
        ),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_reads_as_it_was_written(record: object) -> None:
    """Every record is read back equal."""
    assert decode(type(record), encode(record), key="k") == record


@pytest.mark.parametrize("code", [BundleRef(digest="0" * 64), ImageRef(ref="docker.io/x:1"), None])
def test_every_kind_of_code_travels(code: CodeRef | None) -> None:
    """The kind of code is stored with it, and read as that kind."""
    one = Launch(name="x", jobs=(Job(processes=(Process(["x"]),)),), code=code)
    assert decode(LaunchRequest, encode(LaunchRequest(launch=one)), key="k").launch.code == code


def test_a_key_of_a_launch_is_text() -> None:
    """A number in its place is a SpecError of the user's call."""
    with pytest.raises(SpecError, match="idempotency_key: 5 is not text"):
        LaunchRequest(launch=launch(), idempotency_key=5)  # type: ignore[arg-type]


def test_bytes_that_are_no_text_are_refused() -> None:
    """A path may contain any bytes; the affected text is shown."""
    with pytest.raises(SpecError, match=r"^'a\\udcffb' is not UTF-8"):
        encode(Started(of=replace(OF, job="a\udcffb")))


def test_defaults_are_left_out() -> None:
    """Defaults are not written; schema and kind always are."""
    assert plain(Started(of=OF)) == {"kind": "started", "of": plain(OF)}
    assert plain(Bell(facts=())) == {"schema": 1, "facts": []}


def problem(data: bytes, kind: type = LaunchRequest) -> str:
    """Return the message about an unreadable record."""
    with pytest.raises(RecordError) as caught:
        decode(kind, data, key="k")
    return caught.value.message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"schema":1}', "k: launch: missing"),
        (b'{"schema":3,"launch":null}', "k: schema: 3 is not known, Bastion"),
        (
            b'{"schema":1,"launch":{"name":"x","jobs":[{"processes":[{"command":["a"],"x":1}]}]}}',
            "k: launch.jobs.0.processes.0.x: unknown field",
        ),
        (
            b'{"schema":1,"launch":{"name":"x","jobs":[{"processes":[{"command":"a b"}]}]}}',
            "k: launch.jobs.0.processes.0: command: 'a b' is one string; give a list of arguments"
            " (['a', 'b']), or shell=True for a shell line",
        ),
        (
            b'{"schema":1,"launch":{"name":"x","jobs":[{"processes":[{"command":["a"],'
            b'"resources":{"h100":-1}}]}]}}',
            "resources.h100: -1 is not above zero; leave the type out to ask for none",
        ),
    ],
)
def test_a_problem_names_path_and_value(data: bytes, text: str) -> None:
    """The error has the path of the field, what is wrong and what was found."""
    assert text in problem(data)


def test_every_problem_is_told() -> None:
    """Two wrong fields are two problems in one message."""
    text = problem(b'{"schema":1,"launch":{"name":"x","jobs":[],"a":1,"b":2}}')
    assert "launch.a: unknown field" in text
    assert "launch.b: unknown field" in text


def test_only_problems_of_the_meant_alternative_are_told() -> None:
    """Only the problems of the union's alternative that `kind` names are reported."""
    text = problem(b'{"schema":1,"facts":[{"kind":"claimed","of":{"project":"p"}}]}', Bell)
    assert "facts.0.claim: missing" in text
    assert "facts.0.of.job: missing" in text
    assert "Hello" not in text
    assert "hostname" not in text
    assert "Claimed" not in text


def test_an_unknown_alternative_is_said() -> None:
    """An unknown kind is one problem, with what was found."""
    text = problem(b'{"schema":1,"facts":[{"kind":"sung"}]}', Bell)
    assert text == "k: facts.0.kind: unknown (found 'sung')"


@pytest.mark.parametrize(
    ("instruction", "is_foreign"),
    [
        (b'{"kind":"stop","project":"p","by":"ann"}', False),
        (b'{"kind":"follow","project":"p","job":"j","new":1}', True),
        (b'{"kind":"new"}', True),
    ],
)
def test_spoilt_is_told_from_foreign_in_a_union_too(instruction: bytes, is_foreign: bool) -> None:
    """What the other alternatives do not know makes no record another version's."""
    with pytest.raises(RecordError) as caught:
        decode(Batch, b'{"number":1,"life":1,"instructions":[%s]}' % instruction, key="k")
    assert isinstance(caught.value, ForeignRecordError) is is_foreign


def test_what_is_shown_is_read_without_what_a_newer_version_added() -> None:
    """A program that waits for a job is not ended by an upgrade of the bastion, at any depth."""
    past = PastAttempt(
        number=1, nonce="n", admitted_at=1.0, started_at=2.0, ended_at=3.0, kind=OutcomeKind.LOST
    )
    result = Result(
        id="j",
        project="p",
        user="u",
        launch="l",
        name="n",
        outcome="lost",
        text="gone",
        submitted_at=1.0,
        ended_at=3.0,
        past=(past,) * 150,
    )
    written = json.loads(encode(result)) | {"newer": {"a": [1]}}
    for each in written["past"]:
        each["newer"] = None
    data = json.dumps(written).encode()
    with pytest.raises(ForeignRecordError):
        decode(Result, data, key="k")
    assert decode_known(Result, data, key="k") == result


@pytest.mark.parametrize(
    "data",
    [
        b'{"schema":2,"ulid":"u","verb":"cancel","accepted":true}',
        b'{"schema":1,"ulid":"u","verb":"cancel","newer":1}',
        b'{"schema":1,"ulid":7,"verb":"cancel","accepted":true,"newer":1}',
        b"{",
    ],
)
def test_what_is_shown_is_not_guessed(data: bytes) -> None:
    """Another schema, and what lacks or breaks what this version needs, is refused as ever."""
    with pytest.raises(RecordError):
        decode_known(Answer, data, key="k")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b"nul", b'"\\ud800"'])
def test_no_bytes_are_an_exception_of_another_kind(data: bytes) -> None:
    """For any bytes, the error is a RecordError that names the key."""
    assert problem(data).startswith("k: ")


def test_a_claim_is_typed() -> None:
    """A fact of the wrong shape is refused, not converted."""
    text = problem(b'{"schema":1,"facts":[{"kind":"claimed","of":7,"claim":{"machine":1}}]}', Bell)
    assert "facts.0.of" in text
    assert Claimed.__name__ not in text


def test_an_unknown_schema_is_refused_by_name() -> None:
    """The error names the record's schema, and the readable ones."""
    with pytest.raises(RecordError, match=r"^k: schema: 9 is not known, Bastion [\d.]+ reads 1"):
        decode(Answer, b'{"schema":9,"ulid":"u","verb":"v","accepted":true}', key="k")


@pytest.mark.parametrize("count", [50, 5_000, 50_000])
def test_of_many_mistakes_the_first_are_told(count: int) -> None:
    """A record in which everything is wrong is refused with a bounded message."""
    data = json.dumps({"schema": 1, "targets": [5] * count}).encode()
    with pytest.raises(RecordError) as caught:
        decode(JobsRequest, data, key="cancel")
    assert "targets.0" in caught.value.message or "50000 things" in caught.value.message
    assert len(caught.value.message) < 12_000


def test_a_record_may_have_a_number_of_values() -> None:
    """A record with too many values is refused before any of them is checked."""
    data = json.dumps({"schema": 1, "targets": ["x"] * 100}).encode()
    assert decode(JobsRequest, data, key="cancel", most_values=102)
    with pytest.raises(RecordError, match="more than 101 values"):
        decode(JobsRequest, data, key="cancel", most_values=101)
