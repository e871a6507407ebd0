"""Which job a name refers to."""

from __future__ import annotations

import json

import pytest

from bastion.client.look.find_job import find, find_all
from bastion.client.look.published import Published
from bastion.errors import NotFoundError, SpecError
from bastion.job import JobRecord
from bastion.records.coding.codec import encode, plain
from bastion.records.keys import layout
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import Job, Launch, Process
from bastion.spec.request import Request
from bastion.store.memory import MemoryStore
from tests.rigs.scripted_bastion import NOW, end, publish, put, row, world

A, B, C = "train-aaaaaaaaaa", "train-bbbbbbbbbb", "eval-aaaaaaaaaa"


def published(*rows: dict[str, object]) -> tuple[Published, MemoryStore]:
    """Return a bucket with these active jobs."""
    store, clock = world()
    publish(store, "queue", {"jobs": list(rows)})
    return Published(store, clock.wall), store


def test_an_id_or_its_unique_beginning_names_a_job() -> None:
    """A whole id always works; a prefix works while it is unique."""
    place, _ = published(row(A), row(B), row(C))
    assert find(place, A).id == A
    assert find(place, "train-b").id == B
    assert find(place, "ev").id == C


def test_where_no_bastion_was_ever_the_root_is_wrong_and_not_the_name() -> None:
    """A job under a wrong root is not reported as missing."""
    store, clock = world()
    store.delete(layout.view("status"))
    with pytest.raises(NotFoundError, match="no bastion has published anything here yet"):
        find(Published(store, clock.wall), "train")


def test_a_job_that_is_not_there_may_have_left() -> None:
    """Final records are deleted at an age that admins choose; the history has no age."""
    place, _ = published()
    with pytest.raises(NotFoundError) as told:
        find(place, A)
    assert "bastion history those whose final record was deleted" in told.value.hint


def test_a_name_names_the_newest_job_that_has_it() -> None:
    """Plain names repeat; reading selects the newest."""
    place, _ = published(row(A, submitted_at=NOW), row(B, submitted_at=NOW + 5))
    assert find(place, "train").id == B


def test_the_name_in_the_launch_counts_too() -> None:
    """A job is found by its own name, even if its id has its launch's."""
    place, _ = published(row("sweep-main-aaaaaaaaaa", name="main"))
    assert find(place, "main").id == find(place, "sweep-main").id == "sweep-main-aaaaaaaaaa"


def test_an_ambiguous_beginning_lists_the_candidates() -> None:
    """The error shows the possible jobs."""
    place, _ = published(row(A), row(B))
    with pytest.raises(SpecError) as caught:
        find(place, "trai")
    assert str(caught.value) == f"'trai' names 2 jobs: {A}, {B}"
    assert caught.value.hint == "give the whole id, or more of it"


def test_a_name_goes_before_the_beginning_of_others() -> None:
    """An ended job has exactly that name; two others only begin with it."""
    place, store = published(row("train-big-aaaaaaaaaa"), row("train-big-bbbbbbbbbb"))
    assert isinstance(store, MemoryStore)
    end(store, "sweep-main-cccccccccc", name="train")
    assert find(place, "train").id == "sweep-main-cccccccccc"
    with pytest.raises(SpecError, match="'trai' names 2 jobs"):
        find(place, "trai")


def test_a_change_never_guesses_between_active_jobs() -> None:
    """A cancel needs a name that matches only one active job."""
    place, _ = published(row(A), row(B))
    with pytest.raises(SpecError, match="'train' names 2 jobs"):
        find_all(place, "train")
    assert [job.id for job in find_all(place, A)] == [A]


def test_a_wait_takes_the_newest() -> None:
    """Waiting changes nothing, so a name means the same as in a view."""
    place, _ = published(row(A, submitted_at=NOW), row(B, submitted_at=NOW + 5))
    assert [job.id for job in find_all(place, "train", newest=True)] == [B]


def test_a_launch_is_all_of_its_jobs() -> None:
    """Ended jobs that have left the queue are included as long as their records exist."""
    jobs = ("exp-a-0000000000", "exp-b-0000000000", "exp-c-0000000000")
    place, store = published(*(row(job, launch="exp-0000000000") for job in jobs[1:]))
    made = [Job(name=name, processes=[Process(["true"])]) for name in "abc"]
    record = SpecRecord(
        id="exp-0000000000",
        project="blue",
        user="ada",
        ulid="0" * 26,
        launch=Launch(name="exp", jobs=made, together=False),
    )
    put(store, layout.spec("blue", record.id), encode(record))
    end(store, jobs[0], outcome="failed", code=3)
    assert [job.id for job in find_all(place, record.id)] == list(jobs)
    assert [job.id for job in find_all(place, "exp")] == list(jobs)
    second = row("exp-a-1111111111", launch="exp-1111111111", submitted_at=NOW + 5)
    other = [row(job, launch=record.id) for job in jobs[1:]]
    publish(store, "queue", {"jobs": [second, *other]})
    with pytest.raises(SpecError, match="'exp' names 2 jobs: exp-0000000000, exp-1111111111"):
        find_all(place, "exp")
    assert [job.id for job in find_all(place, "exp", newest=True)] == [second["id"]]
    publish(store, "queue", {"jobs": []})
    end(store, jobs[1])
    end(store, jobs[2])
    assert [job.code for job in find_all(place, record.id)] == [3, 0, 0]
    with pytest.raises(NotFoundError) as missing:  # by `why` and `fetch`, which take one job
        find(place, record.id)
    assert missing.value.message == "'exp-0000000000' is a launch of 3 jobs, and one job is needed"
    assert missing.value.hint == f"name one of them: {', '.join(jobs)}"


def test_finished_jobs_are_found_in_every_project() -> None:
    """A job that left the queue is found by its final record."""
    place, store = published(row(C))
    end(store, A, project="green")
    end(store, B)
    assert find(place, A).project == "green"
    assert find(place, "train-b").state == "succeeded"
    assert find(place, "train", project="blue").id == B
    with pytest.raises(NotFoundError, match=f"no job '{A}' in project blue"):
        find(place, A, project="blue")


def in_root(store: MemoryStore, *ids: str) -> None:
    """Put these jobs into root, each submitted a second after the previous one."""
    jobs = {
        job: JobRecord(
            id=job,
            project="blue",
            user="ada",
            launch=job,
            ulid="0" * 26,
            submitted_at=NOW + second,
            request=Request(),
        )
        for second, job in enumerate(ids)
    }
    held = {job: plain(record) for job, record in jobs.items()}
    put(store, layout.ROOT, json.dumps({"jobs": held}).encode())


def test_a_job_that_no_view_shows_yet_is_found_in_root() -> None:
    """Between the answer and the next view, root already knows the job."""
    place, store = published()
    in_root(store, A)
    assert find(place, A).state == "queued"


def test_a_name_that_no_view_shows_yet_is_found_in_root() -> None:
    """A command after a submission can name it immediately: the newest of its project."""
    place, store = published()
    in_root(store, A, B, C)
    assert find(place, "train", project="blue").id == B
    assert find_all(place, "eval", exact=True)[0].id == C
    with pytest.raises(NotFoundError):
        find(place, "train", project="red")
    with pytest.raises(NotFoundError):
        find(place, "trai", exact=True)


def test_no_such_job_says_how_to_look() -> None:
    """An unknown name has another error than an empty bucket."""
    place, _ = published(row(A))
    with pytest.raises(NotFoundError) as caught:
        find(place, "nothing")
    assert str(caught.value) == "no job 'nothing'"
    assert "bastion list" in caught.value.hint
    with pytest.raises(NotFoundError, match="no job 'tr\\*'; a name is not a pattern") as caught:
        find_all(place, "tr*", exact=True)
    assert caught.value.hint == "bastion list -q prints ids, one on each line, for grep and xargs"


@pytest.mark.parametrize("text", ["../x", ".", "a/b", "a" * 5000, "a\x01", "\u00fc", " "])
def test_what_no_job_can_be_called_names_none(text: str) -> None:
    """A path, or a name without an end, is no job, and keys are not mentioned."""
    place, _ = published(row(A))
    for look in (find, find_all):
        with pytest.raises(NotFoundError, match=r"^no job "):
            look(place, text)


def test_an_empty_name_is_refused() -> None:
    """An unset variable in a script never means the only existing job."""
    place, _ = published(row(A))
    for look in (find, find_all):
        with pytest.raises(SpecError, match=r"^'' is not the name of a job"):
            look(place, "")


def test_a_mistyped_name_is_told_with_the_nearest_job() -> None:
    """The hint has the id of an active job of the requested project."""
    place, _ = published(row("train-aaaaaaaaaa"), row("evaluate-bbbbbbbbbb"))
    with pytest.raises(NotFoundError) as caught:
        find(place, "trian")
    assert caught.value.hint.startswith("did you mean train-aaaaaaaaaa? bastion list shows ")
    with pytest.raises(NotFoundError) as caught:
        find(place, "trian", project="green")
    assert "did you mean" not in caught.value.hint


def test_an_ended_job_of_exactly_that_name_goes_before_a_longer_active_one() -> None:
    """`train` is the ended job of that name, never the active `train2`."""
    place, store = published(row("train2-cccccccccc"))
    end(store, A)
    assert find(place, "train").id == A
    assert find(place, "train2").id == "train2-cccccccccc"
    assert [job.id for job in find_all(place, "train", exact=True)] == [A]


def test_a_beginning_counts_for_looking_alone() -> None:
    """A change needs the full name; the hint has the whole id."""
    place, store = published(row("train2-cccccccccc"))
    assert find(place, "tra").id == "train2-cccccccccc"
    with pytest.raises(NotFoundError, match="no job is called 'tra'; a change needs") as caught:
        find_all(place, "tra", exact=True)
    assert caught.value.hint == "did you mean train2-cccccccccc?"
    publish(store, "queue", {"jobs": []})
    end(store, A)
    with pytest.raises(NotFoundError) as caught:
        find_all(place, "tr", exact=True)
    assert caught.value.hint == f"did you mean {A}?"


def test_an_ended_job_is_found_by_its_name_in_the_launch() -> None:
    """`trainer` of the launch `experiment` keeps its name after it has left the queue."""
    place, store = published()
    end(store, "experiment-aaaaaaaaaa", name="trainer")
    assert find(place, "trainer").id == "experiment-aaaaaaaaaa"


def test_a_wait_takes_the_newest_that_has_ended_whatever_its_launch_is_called() -> None:
    """An older job with the name in its id could report success although the newer failed."""
    store, clock = world()
    publish(store, "queue", {"jobs": []})
    place = Published(store, clock.wall)
    for job, name in ((A, "train"), ("exp-cccccccccc", "train"), (C, "eval")):
        clock.sleep(100.0)
        end(store, job, name=name)
    assert find_all(place, "train", newest=True)[0].id == "exp-cccccccccc"
    assert find_all(place, A, newest=True)[0].id == A
    assert find_all(place, "eval", newest=True)[0].id == C
