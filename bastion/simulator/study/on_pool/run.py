"""
Submits the points of a study as an array, waits for them, and merges their results.

A failed point is reported by its label with Bastion's reason, and the others are kept. An interrupt
cancels the array; what has ended by then is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from tempfile import TemporaryDirectory

from bastion.client import Client, JobView, LaunchHandle
from bastion.client.code.outputs import Outputs
from bastion.client.look.views import ENDED
from bastion.errors import BastionError, StoreError, TimedOutError
from bastion.simulator.engine.result import Result
from bastion.simulator.study.on_pool.parcel import PROGRAM, pack
from bastion.simulator.study.on_pool.stored import decoded
from bastion.simulator.study.on_pool.task import RESULT
from bastion.simulator.study.point import Point, Runs, Told
from bastion.spec import Array, Job, Launch, Process, Resources, Where
from bastion.spec.arrays.task import task_id
from bastion.value import value
from bundler.code import LocalDir
from bundler.lanes import in_lanes

_LOOK_S = 2.0
"""Between two checks of the array's progress."""
_LANES = 8
"""Results that are fetched at the same time."""


@value
class Pool:
    """Where the points of a study run."""

    client: Client
    resources: Resources = field(default_factory=lambda: Resources(cpu=1))
    """What each point requests; it uses one CPU."""
    where: Where = field(default_factory=Where)


def run_on_pool(
    points: Sequence[Point],
    pool: Pool,
    *,
    told: Told | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Runs:
    """
    Return the results of `points`, in their order, each from its own job.

    Args:
        points: Labelled so that they can be told apart.
        pool: Where they run.
        told: Called now and then with the number that have ended.
        note: Called with information for the user, such as the name of the array.

    Raises:
        BastionError: The bastion refused, or no point gave a result; this is why the first did not.
        StoreError: Unreachable; the array continues.
    """
    handle = _submitted(points, pool)
    note(f"{handle.id} runs {len(points)} simulations; bastion why {handle.id} tells of it")
    is_cancelled = False
    try:
        _wait(handle, pool.client, len(points), told)
    except KeyboardInterrupt:
        is_cancelled = True
        note(f"{handle.id} is cancelled; what it has is merged")
        handle.cancel()
        _wait(handle, pool.client, len(points), told)
    return _merged(points, handle, pool.client, is_cancelled=is_cancelled)


def _submitted(points: Sequence[Point], pool: Pool) -> LaunchHandle:
    with TemporaryDirectory(prefix="bastion-study-") as folder:
        pack(points, Path(folder))
        process = Process(["python3", PROGRAM], resources=pool.resources)
        launch = Launch(
            name="simulate",
            description=", ".join(point.setup.name for point in points)[:1000],
            jobs=[Job(processes=[process])],
            array=Array(len(points)),
            code=LocalDir(folder),
            where=pool.where,
        )
        return pool.client.launch(launch)


def _wait(handle: LaunchHandle, client: Client, count: int, told: Told | None) -> None:
    """Wait until every task has ended."""
    places = {handle.id: handle.project}
    while True:
        try:
            client.watch.wait(places, timeout_s=_LOOK_S)
        except TimedOutError:
            if told is not None:
                ended = min(_ended(handle), count)
                told([1.0] * ended + [0.0] * (count - ended))
        else:
            return


def _ended(handle: LaunchHandle) -> int:
    try:
        (array,) = handle.status().jobs
    except StoreError:
        return 0  # waiting continues, and so does the array
    return sum(number for state, number in array.counts.items() if state in ENDED)


def _merged(
    points: Sequence[Point], handle: LaunchHandle, client: Client, *, is_cancelled: bool
) -> Runs:
    ids = [task_id(handle.id, number) for number in range(len(points))]
    views = client.watch.now(dict.fromkeys(ids, handle.project))

    def found(job: str) -> Result | BastionError | None:
        view = views[job]
        if is_cancelled and (view is None or view.state == "cancelled"):
            return None
        return _result_of(job, view, client, handle.project)

    got = list(in_lanes(found, ids, lanes=_LANES))
    both = list(zip(points, got, strict=True))
    failed = {point.setup.name: each for point, each in both if isinstance(each, BastionError)}
    results = [each for each in got if isinstance(each, Result)]
    if failed and not results:
        raise next(iter(failed.values()))
    return Runs(
        points=[point for point, each in both if isinstance(each, Result)],
        results=results,
        failed=failed,
        left_out=[point.setup.name for point, each in both if each is None],
    )


def _result_of(
    job: str, view: JobView | None, client: Client, project: str
) -> Result | BastionError:
    if view is None or view.state != "succeeded":
        why = "nothing is known of it" if view is None else view.text or view.state
        return BastionError(f"{job}: {why}", hint=f"bastion logs {job}")
    try:
        with TemporaryDirectory(prefix="bastion-study-") as folder:
            Outputs(client.store, project, job).fetch(Path(folder))
            data = (Path(folder) / "r0" / RESULT).read_bytes()
        return decoded(data, source=job)
    except FileNotFoundError:
        return BastionError(f"{job} succeeded and kept no {RESULT}")
    except BastionError as error:
        return error
