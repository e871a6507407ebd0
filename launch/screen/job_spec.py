"""The spec of a job for people: command, environment, resources, limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from launch.screen.render import amounts

if TYPE_CHECKING:
    from bastion.spec import Code, CodeRef, Job, Launch, Process


MOST_LINES = 8
"""Of one word of a command; what is longer hides all other fields."""


def spec_fields(job: Job, launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield name and text of each field; the text is empty if the field is not set."""
    for process in job.processes:
        yield "command", _command(process)
    yield code_field(launch.code)
    yield "each asks", amounts(job.per_replica) if job.range.most > 1 else ""
    yield "instance type", job.instance_type
    yield "where", launch.where.text
    yield "environment", " ".join(f"{name}={shlex.quote(text)}" for name, text in job.env.items())
    yield "secrets", ", ".join(secret.name for secret in job.secrets)
    yield "max runtime", _span(job.max_runtime_s)
    yield "succeeds", "once its first replica has" if job.success == "first" else ""
    yield "if one fails", "the others continue" if _continues(job) else ""
    yield "retries", str(job.retries or "")
    yield "grace", _span(job.grace_s)


def _continues(job: Job) -> bool:
    return job.range.most > 1 and not job.stops_others


def stored(job: Job, launch: Launch) -> Any:
    """Return `job`, and the code of its launch and where it may run, as JSON values."""
    from bastion.records.coding.codec import plain

    return {**plain(job), "code": plain(launch.code), "where": plain(launch.where)}


def code_field(code: CodeRef | Code | None) -> tuple[str, str]:
    """
    Return a name, and what names `code` in every bucket: a digest, a commit, or an image.

    A digest stands alone, so that a line of 80 columns has room for it.
    """
    from bastion.spec import BundleRef, GitRef, ImageRef

    match code:
        case BundleRef(digest=digest):
            return "bundle", digest
        case GitRef(url=url, commit=commit, branch=branch):
            at = f", branch {branch}" if branch else ""
            return "code", f"commit {commit} of {url}{at}"
        case ImageRef(ref=image):
            return "code", f"image {image}"
        case _:
            return "code", "none was sent"


def _command(process: Process) -> str:
    """As it is typed; a word of many lines, as a whole script, is told by its first one."""
    from bastion.compat.sbatch_script import script_of

    if (slurm := script_of(process.command)) is not None:
        name, script, arguments = slurm
        lines = len(script.splitlines())
        return f"{shlex.join([name, *arguments])} (a Slurm script of {lines} lines; --json has all)"
    words = [_shortened(word) for word in process.command]
    return " ".join(words) if process.shell else shlex.join(words)


def _shortened(word: str) -> str:
    lines = word.strip().splitlines()
    if len(lines) <= MOST_LINES:
        return word
    return f"{lines[0]} ... ({len(lines)} lines; --json has all)"


def _span(seconds: float | None) -> str:
    from bastion.spec.values.quantity import text_of_seconds

    return text_of_seconds(seconds) if seconds else ""
