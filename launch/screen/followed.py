"""Notes about followed jobs: their output, their changes, their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from launch.screen.notes import note, note_remedy
from launch.screen.printout import Printout
from launch.screen.render import Output, span
from quota.pattern import pattern

if TYPE_CHECKING:
    from bastion.client import Chunk, JobView

_SPAN = pattern(r"\d+(\.\d+)?[smhd]\b( \d+[smhd]\b)?")
"""A duration in a text; a change of it alone is not printed."""
_NUMBER = pattern(r"\d+")
"""A running job's text counts what its project holds, which changes with every other job."""


def write(
    chunks: Iterator[Chunk],
    out: Printout,
    *,
    prefix: bool,
    several: bool = False,
    of: Mapping[str, str] = MappingProxyType({}),
    attempts: Attempts | None = None,
) -> None:
    """
    Write output exactly; with `prefix` line by line, each with its origin.

    Output of `several` processes is written line by line, so that their lines do not mix. The text
    that `of` has for a job is printed before its origins. `attempts` notes where each begins.

    Raises:
        BrokenPipeError: The reader of stdout has closed it.
    """
    if not (prefix or several):
        for chunk in chunks:
            if attempts is not None:
                attempts(chunk)
            out.write(chunk.data)
        return
    from bastion.client.follow.lines import in_lines

    open_line = b""
    for chunk in in_lines(chunks):
        if attempts is not None:
            attempts(chunk)
        start = f"{of.get(chunk.job, '')}{_origin(chunk)} | ".encode() if prefix else b""
        lines = chunk.data.removesuffix(b"\n").split(b"\n")
        text = b"\n".join(start + line for line in lines)
        is_whole = prefix or chunk.data.endswith(b"\n")
        out.write(open_line + text + (b"\n" if is_whole else b""))
        open_line = b"" if is_whole else b"\n"


def _origin(chunk: Chunk) -> str:
    """Name a process; the first host of a replica is not named."""
    stream = chunk.stream
    host = f"/h{stream.host}" if stream.host else ""
    return f"r{stream.replica}{host}/p{stream.process}"


def tell_ended(out: Output, job: JobView) -> None:
    """Print how a job ended, and after how long; print nothing with `--quiet`."""
    from bastion.phrases import after_phrase, state_phrase

    if out.is_quiet:
        return
    state = job.outcome or job.state
    took = span((job.ended_at or out.now) - job.submitted_at)
    rest = after_phrase(state, job.text)
    note(f"{job.id} {out.state(state, state_phrase(state))} after {took}{rest}", is_prose=True)
    note_remedy(job.text)


class Attempts:
    """
    Notes on stderr where the output of each attempt of a job begins; stdout has only the output.

    Args:
        out: Where the output goes.
        all_of: Whether the first attempt that is shown is noted too.
    """

    def __init__(self, out: Printout, *, all_of: bool) -> None:
        self._out = out
        self._all_of = all_of
        self._shown: dict[str, int] = {}

    def __call__(self, chunk: Chunk) -> None:
        """Note the attempt of `chunk`, which is about to be printed, if it is another one."""
        attempt, before = chunk.stream.attempt, self._shown.get(chunk.job)
        self._shown[chunk.job] = attempt
        if attempt != before and (self._all_of or before is not None):
            self._out.end_line()
            note(f"attempt {attempt} of {chunk.job}:")


class Teller:
    """
    Prints a note on stderr when the state or reason of a followed job changes.

    Args:
        out: Where the output of the job goes.
        quiet: Print nothing.
        states_only: Leave out changes of the reason alone.
        waits_only: Leave out that it runs, unless a note said before that it does not.
    """

    def __init__(
        self, out: Printout, *, quiet: bool, states_only: bool = False, waits_only: bool = False
    ) -> None:
        self._out = out
        self._waits_only = waits_only
        self._quiet = quiet
        self._states_only = states_only
        self._said: dict[str, str] = {}

    def __call__(self, job: JobView) -> None:
        """Print the note, unless it repeats the last one or must wait for the end of a line."""
        from bastion.phrases import after_phrase, state_phrase

        said = f"{job.id} {state_phrase(job.state)}{after_phrase(job.state, job.text)}"
        news = job.state if self._states_only else _SPAN.sub("", said)
        news = _NUMBER.sub("", news) if job.state == "running" else news
        if news == self._said.get(job.id) or self._quiet or job.is_decided:
            return
        if self._waits_only and job.state == "running" and job.id not in self._said:
            return
        if self._out.note(said):
            self._said[job.id] = news
