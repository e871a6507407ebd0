"""`events`, `why` and `show`: several jobs, the newest events, and future events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bastion.records.keys import layout
from launch import exits
from launch.screen.render import iso
from tests.launch.bucket import JOB, Bucket
from tests.launch.command_line import Run
from tests.launch.terminal import drawn
from tests.rigs.scripted_bastion import NOW, end, publish, put, row

OTHER = "eval-9876543210"


def happen(bucket: Bucket, number: int) -> None:
    """Fill root with that many events of two jobs in turn, the last one now."""
    events = [
        {"n": n, "at": NOW + 11 - number + n, "job": (JOB, OTHER)[n % 2], "what": f"event-{n}"}
        for n in range(number)
    ]
    put(bucket.store, layout.ROOT, json.dumps({"events": events}).encode())
    publish(bucket.store, "queue", {"jobs": [row(JOB), row(OTHER, submitted_at=NOW - 100)]})


def told(out: str) -> list[str]:
    """Return the events of a table."""
    return [word for word in out.split() if word.startswith("event-")]


def test_events_are_cut_by_number_and_by_time(run: Run, bucket: Bucket) -> None:
    """--tail keeps the last ones, --since the recent ones by the store's clock."""
    happen(bucket, 8)
    assert told(run("events", "--tail=2").out) == ["event-6", "event-7"]
    assert told(run("events", "--since=2s").out) == ["event-5", "event-6", "event-7"]
    assert told(run("events", "--tail=0").out) == []
    assert len(told(run("events").out)) == 8, "a program gets all"
    ran = run("events", "--tail=-1")
    assert (ran.code, "must be 0 or more" in ran.err) == (exits.USAGE, True)


def test_events_tell_the_longest_wait_in_the_queue(run: Run, bucket: Bucket) -> None:
    """The hint is a command that shows who used the devices; holds and short waits do not count."""
    script = [
        (0, "submitted"),
        (1, "held"),
        (500, "queued"),
        (510, "starting"),
        (600, "preempted"),
        (700, "starting"),
        (730, "succeeded"),
    ]

    def told_of(happened: list[tuple[int, str]], *words: str) -> str:
        events = [
            {"n": n, "at": NOW - 1000 + at, "job": JOB, "what": what}
            for n, (at, what) in enumerate(happened)
        ]
        put(bucket.store, layout.ROOT, json.dumps({"events": events}).encode())
        publish(bucket.store, "queue", {"jobs": [row(JOB, submitted_at=NOW - 1000)]})
        return run("events", *words, JOB).err

    since, until = iso(NOW - 400), iso(NOW - 300)
    asks = f"bastion usage --by=project,user --since={since}"
    assert told_of(script) == (
        f"{JOB} waited 1m 40s in the queue, since {since} until {until}\n"
        f"what used the devices in that time: {asks} --until={until}\n"
    )
    assert told_of(script[:4]) == ""
    assert told_of(script[:5]).splitlines()[0].startswith(f"{JOB} has waited 6m")
    assert told_of(script[:5]).splitlines()[1] == f"what used the devices in that time: {asks}"
    assert told_of(script[:2]) == "", "it waits for its user"
    assert told_of(script, "-q") == told_of(script, "--json") == ""


def test_a_task_joins_the_queue_with_its_array(run: Run, bucket: Bucket) -> None:
    """Its events begin with those of the array, up to its start; its wait counts from there."""
    script = [
        (0, JOB, "submitted"),
        (20, f"{JOB}.0", "starting"),
        (120, f"{JOB}.1", "starting"),
        (200, f"{JOB}.1", "preempted"),
        (230, f"{JOB}.1", "starting"),
        (300, f"{JOB}.1", "succeeded"),
        (900, JOB, "cancelled"),
    ]

    def events(count: int, job: str) -> tuple[list[str], str]:
        happened = [
            {"n": n, "at": NOW - 1000 + at, "job": of, "what": what}
            for n, (at, of, what) in enumerate(script[:count])
        ]
        lines = b"\n".join(json.dumps(each).encode() for each in happened[:3])
        put(bucket.store, layout.events(0), lines)
        put(bucket.store, layout.ROOT, json.dumps({"events": happened[3:]}).encode())
        rows = [row(each, submitted_at=NOW - 1000) for each in (f"{JOB}.0", f"{JOB}.1", f"{JOB}.2")]
        array = row(JOB, submitted_at=NOW - 1000) | {"counts": {"queued": 3}, "waiting": "0-2"}
        publish(bucket.store, "queue", {"jobs": rows, "arrays": [array]})
        ran = run("events", job)
        assert ran.code == 0, ran.err
        return [line.split()[2] for line in ran.out.splitlines()[1:]], ran.err

    own = ["submitted", "starting", "preempted", "starting", "succeeded"]
    since, until = iso(NOW - 1000), iso(NOW - 880)
    first = f"{JOB}.1 waited 2m in the queue, since {since} until {until}\n"
    for count, job in ((7, f"{JOB}.1"), (7, JOB), (6, JOB)):
        what, told = events(count, job)
        assert what == (own if job != JOB else [each[2] for each in script[:count]])
        assert told.startswith(first)
    assert events(7, f"{JOB}.2")[0] == ["submitted", "cancelled"]
    assert events(1, JOB)[1].startswith(f"{JOB} has waited 16m")


def test_quiet_events_name_jobs(run: Run, bucket: Bucket) -> None:
    """-q prints ids for other verbs, each once, even while it follows."""
    happen(bucket, 5)
    assert run("events", "-q").out.split() == [JOB, OTHER]
    assert run("events", "-q", "--tail=1").out.split() == [JOB]
    publish(bucket.store, "queue", {"jobs": []})
    end(bucket.store, JOB)
    assert run("events", JOB, "-f", "-q").out.split() == [JOB]


def test_a_terminal_shows_the_newest_of_all_events(bucket: Bucket, tmp_path: Path) -> None:
    """Without a job, it shows the last fifty, and how to get more."""
    happen(bucket, 60)
    lines = drawn(["events"], bucket, tmp_path, columns=120)
    assert told("\n".join(lines))[0] == "event-10"
    assert "the last 50 events; use --tail=N or --since=TIME to see more" in lines


def test_events_of_several_jobs_are_in_order(run: Run, bucket: Bucket) -> None:
    """Events of two jobs are one list, by number; a repeated name counts once."""
    happen(bucket, 5)
    of_both = [f"event-{n}" for n in range(5)]
    assert told(run("events", "train", "eval", "train").out) == of_both
    assert told(run("events", "eval").out) == ["event-1", "event-3"]


def test_following_ends_with_the_job(run: Run, bucket: Bucket) -> None:
    """-f prints events as lines or JSON lines, and ends once the job has ended."""
    happen(bucket, 6)
    publish(bucket.store, "queue", {"jobs": []})
    end(bucket.store, JOB)
    assert told(run("events", JOB, "-f").out) == ["event-0", "event-2", "event-4"]
    assert told(run("events", JOB, "-f", "--tail=1").out) == ["event-4"]
    lines = run("events", JOB, "-f", "--json").out.splitlines()
    assert [json.loads(line)["event"]["what"] for line in lines] == [
        "event-0",
        "event-2",
        "event-4",
    ]


def test_show_tells_how_long_a_job_waited(run: Run, bucket: Bucket) -> None:
    """Of one that runs since it joined the queue; of one that has ended since its submission."""

    def waited(**fields: Any) -> list[str]:
        publish(bucket.store, "queue", {"jobs": [row(JOB, **fields)] if fields else []})
        lines = (line.split(maxsplit=1) for line in run("show", JOB).out.splitlines())
        return [rest for name, rest in lines if name == "waited"]

    times: dict[str, Any] = {"submitted_at": NOW - 7200, "queued_at": NOW - 600}
    times["started_at"] = NOW - 300
    (told,) = waited(state="running", attempt=2, **times)
    assert told == "5m from joining the queue to this start"
    assert not waited(state="running", **times | {"started_at": None})
    assert not waited(state="queued", **times), "its last attempt started before it joined again"
    end(bucket.store, JOB)
    assert waited() == ["2s from its submission to its start"]


def test_why_and_show_take_several_jobs(run: Run, bucket: Bucket) -> None:
    """They are in the given order; as JSON they are one list."""
    publish(bucket.store, "queue", {"jobs": [row(JOB), row(OTHER, text="behind one job")]})
    lines = run("why", "eval", "train").out.splitlines()
    assert [line.split()[0] for line in lines] == [OTHER, JOB]
    twice = run("why", "eval", OTHER).out.splitlines()
    assert [line.split()[0] for line in twice] == [OTHER]
    assert [
        each["job"] for each in json.loads(run("why", "eval", "train", "--json").out)["why"]
    ] == [
        OTHER,
        JOB,
    ]
    assert run("why", "eval", "-q").out.split() == [OTHER]
    blocks = run("show", "train", "eval").out.split("\n\n")
    assert [block.split()[1] for block in blocks] == [JOB, OTHER]
    both = json.loads(run("show", "train", "eval", "--json").out)
    assert ([job["id"] for job in both["jobs"]], both["specs"]) == ([JOB, OTHER], {})
    ran = run("show", "train", "eval", "--code")
    assert (ran.code, "take one job; 2 were given" in ran.err) == (exits.USAGE, True)
