"""
A job's kept outputs, fetched to the user's machine.

    <folder>/r<i>/...             outputs of replica i
    <folder>/r<i>.h<j>/...        outputs of its further host j, if replicas have several hosts
    <folder>/.fetching/           parts of incomplete files

The outputs of several tasks of an array are in <folder>/<index of the task>/.

A file appears with one rename, complete and checked against the digests of its parts. Files that
are present and unchanged stay as they are, and an interrupted file is resumed. So another fetch,
even after a kill, transfers only what is missing or has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bastion.errors import BastionError, NotFoundError
from bastion.records.reports.output import PART_BYTES, SavedFile, read_part, read_saved, saved_lists
from bastion.store.port import ObjectStore
from bastion.value import value
from bundler.lanes import in_lanes
from bundler.progress import Progress, Report, unreported

if TYPE_CHECKING:
    from bastion.client.look.views import JobView

LANES = 4
"""Files written at the same time; each holds one part, 16 MiB, in memory."""
_GROWING = ".fetching"
_WHAT_IS_KEPT = (
    "a job keeps what it writes into BASTION_OUTPUT_DIR: at its checkpoints, when it is stopped,"
    " and at its end"
)


@value
class Fetched:
    """The outputs of a job that are now in a folder."""

    folder: Path
    attempts: tuple[int, ...]
    """The attempts that kept it, one per host."""
    files: int
    size_bytes: int
    fetched_bytes: int
    """Bytes transferred by this call; the rest was present."""
    kept_at: float
    """When the newest of it was kept, in Unix seconds by the store's clock."""
    tasks: int = 0
    """How many tasks of an array kept it; 0: it is of one job."""


class _NothingKeptError(NotFoundError):
    """A job has kept nothing of what was asked for."""


@value
class Wish:
    """Which of the kept outputs are wanted."""

    attempt: int | None = None
    """None: for each host the newest attempt that kept anything."""
    replica: int | None = None
    """None: all of them."""
    is_array: bool = False
    """Whether the jobs are tasks of an array, each with a folder named by its index."""


@value
class _Piece:
    """One file of one host."""

    file: SavedFile
    path: Path
    part: Path
    """The path where it grows until it is complete."""


class Outputs:
    """
    The kept outputs of one job.

    Args:
        store: The bucket.
        project: The job's project.
        job: The job's id.
    """

    def __init__(self, store: ObjectStore, project: str, job: str) -> None:
        self._store = store
        self._project = project
        self._job = job

    def fetch(
        self,
        folder: Path,
        *,
        attempt: int | None = None,
        replica: int | None = None,
        report: Report = unreported,
    ) -> Fetched:
        """
        Bring `folder` up to date with the job's kept outputs.

        Args:
            folder: Created if it does not exist. Files in it that the job did not keep stay.
            attempt: The attempt; None: for each host the newest attempt that kept anything.
            replica: Only this one.
            report: Called with the progress.

        Raises:
            NotFoundError: It kept nothing.
            RecordError: A record in the bucket is damaged; undamaged files are still written.
            BastionError: The folder cannot be written, or another fetch is writing to it.
            StoreError: The bucket is unreachable; fetched files stay, so a retry continues.
        """
        newest = self._newest(attempt, replica)
        pieces: list[_Piece] = []
        for (r, h), (_, _, _, key) in sorted(newest.items()):
            top = folder / (f"r{r}" if h == 0 else f"r{r}.h{h}")
            for file in read_saved(self._store, key).files:
                name = hashlib.sha256(f"{top.name}/{file.path}".encode()).hexdigest()
                part = folder / _GROWING / name
                pieces.append(_Piece(file=file, path=top / file.path, part=part))
        try:
            fetched_bytes = self._bring(folder, pieces, report)
        except OSError as error:
            where = error.filename or folder
            raise BastionError(f"{where} cannot be written: {error.strerror}") from None
        return Fetched(
            folder=folder,
            attempts=tuple(sorted({found[0] for found in newest.values()})),
            files=len(pieces),
            size_bytes=sum(piece.file.size for piece in pieces),
            fetched_bytes=fetched_bytes,
            kept_at=max(found[2] for found in newest.values()),
        )

    def _newest(
        self, attempt: int | None, replica: int | None
    ) -> dict[tuple[int, int], tuple[int, int, float, str]]:
        """Return (attempt, number, time, key) of the list in effect, by replica and host."""
        newest: dict[tuple[int, int], tuple[int, int, float, str]] = {}
        attempts: set[int] = set()
        for named, entry in saved_lists(self._store, self._project, self._job):
            attempts.add(named.attempt)
            if attempt in (None, named.attempt) and replica in (None, named.replica):
                host = named.replica, named.host
                found = named.attempt, named.number, entry.modified_at, entry.key
                newest[host] = max(newest.get(host, found), found)
        if newest:
            return newest
        if not attempts:
            raise _NothingKeptError(f"{self._job} has kept nothing", hint=_WHAT_IS_KEPT)
        asked = "" if attempt is None else f" in attempt {attempt}"
        asked += "" if replica is None else f" by replica {replica}"
        shown = ", ".join(map(str, sorted(attempts)))
        raise _NothingKeptError(
            f"{self._job} has kept nothing{asked}", hint=f"files were kept in attempt {shown}"
        )

    def _bring(self, folder: Path, pieces: list[_Piece], report: Report) -> int:
        total = sum(piece.file.size for piece in pieces)
        done = fetched = 0
        with _alone_in(folder):
            for piece, read in in_lanes(self._write, pieces, lanes=LANES):
                fetched += read
                done += piece.file.size
                report(Progress(step="fetch", done=done, total=total))
            shutil.rmtree(folder / _GROWING)
        return fetched

    def _write(self, piece: _Piece) -> tuple[_Piece, int]:
        """Write one file if it is incomplete; return the number of bytes that were read."""
        mode = 0o755 if piece.file.executable else 0o644
        if _is_there(piece):
            piece.path.chmod(mode)
            return piece, 0
        read = 0
        handle = os.open(piece.part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "r+b") as out:
            there = _matching(out, piece.file.parts)
            out.truncate(out.tell())
            for digest in piece.file.parts[there:]:
                data = read_part(self._store, self._project, self._job, digest)
                out.write(data)
                read += len(data)
        piece.part.chmod(mode)
        piece.path.parent.mkdir(parents=True, exist_ok=True)
        piece.part.replace(piece.path)
        return piece, read


def fetch_all(
    store: ObjectStore,
    jobs: Sequence[JobView],
    directory: str | Path,
    wish: Wish,
    report: Report | None,
) -> Fetched:
    """
    Bring a folder up to date with what one job, or some tasks of one array, kept.

    Tasks that kept nothing are left out. Without a `directory`, it is a folder here named by the
    id, which neither git nor the next bundle of this folder includes.

    Raises:
        NotFoundError: None of them kept anything.
        BastionError: As for `Outputs.fetch`.
    """
    whole = jobs[0].launch if wish.is_array else jobs[0].id
    folder = folder_at(directory or whole)
    found: list[Fetched] = []
    for job in jobs:
        with suppress(_NothingKeptError) if wish.is_array else nullcontext():
            outputs = Outputs(store, job.project, job.id)
            there = folder / str(job.task) if wish.is_array else folder
            picks = {"attempt": wish.attempt, "replica": wish.replica}
            found.append(outputs.fetch(there, **picks, report=report or unreported))
    if not found:
        raise NotFoundError(f"no task of {whole} has kept anything", hint=_WHAT_IS_KEPT)
    if not directory:
        _leave_out(folder)
    return Fetched(
        folder=folder,
        attempts=tuple(sorted({number for each in found for number in each.attempts})),
        files=sum(each.files for each in found),
        size_bytes=sum(each.size_bytes for each in found),
        fetched_bytes=sum(each.fetched_bytes for each in found),
        kept_at=max(each.kept_at for each in found),
        tasks=len(found) if wish.is_array else 0,
    )


def folder_at(named: str | Path) -> Path:
    """Return the folder that a user names; the name of an unknown user after `~` stays as it is."""
    return Path(os.path.expanduser(named)).absolute()  # noqa: PTH111


def _leave_out(folder: Path) -> None:
    """Keep `folder` out of git and of bundles, unless the user has decided otherwise."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x") as file:
        file.write("*\n")


def _is_there(piece: _Piece) -> bool:
    """Whether the file holds exactly its parts."""
    try:
        with piece.path.open("rb") as file:
            parts = piece.file.parts
            return _matching(file, parts) == len(parts) and not file.read(1)
    except FileNotFoundError:
        return False


def _matching(file: BinaryIO, parts: Sequence[str]) -> int:
    """Return how many leading `parts` are in `file`; leaves its position after the last one."""
    for at, digest in enumerate(parts):
        begin = file.tell()
        if hashlib.sha256(file.read(PART_BYTES)).hexdigest() != digest:
            file.seek(begin)
            return at
    return len(parts)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """
    Hold `folder` against other fetches; the kernel releases it when the process ends.

    Raises:
        BastionError: Another fetch holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / _GROWING).mkdir(exist_ok=True)
        yield
    except BlockingIOError:
        raise BastionError(
            f"{folder} is being fetched into by another command", hint="wait for it to end"
        ) from None
    finally:
        os.close(handle)
