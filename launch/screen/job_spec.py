"""The spec of a job for people: command, environment, resources, limits."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from launch.screen.render import amounts

if TYPE_CHECKING:
    from bastion.spec import Code, CodeRef, Job, Launch, Process


MOST_LINES = 8
"""The most lines of one word of a command; a longer one would hide all other fields."""


def spec_fields(job: Job, launch: Launch) -> Iterator[tuple[str, str]]:
    """Yield name and text of each field; the text is empty if the field is not set."""
    for process in job.processes:
        yield "command", _command(process)
    yield code_field(launch.code)
    yield "per replica", amounts(job.per_replica) if job.range.most > 1 else ""
    yield "instance type", job.instance_type
    yield "where", launch.where.text
    yield "environment", " ".join(f"{name}={shlex.quote(text)}" for name, text in job.env.items())
    yield "secrets", ", ".join(secret.name for secret in job.secrets)
    yield "max runtime", _span(job.max_runtime_s)
    yield "succeeds", "when its first replica does" if job.success == "first" else ""
    yield "on failure", "other replicas continue" if _continues(job) else ""
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
    Return a field name, and the digest, commit or image that identifies `code`.

    A digest has its own field name, so that it fits a line of 80 columns.
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
            return "code", "none"


def _command(process: Process) -> str:
    """Return the command as typed; a long word, such as a script, is cut to its first line."""
    from bastion.compat.sbatch_script import script_of

    if (slurm := script_of(process.command)) is not None:
        name, script, arguments = slurm
        lines = len(script.splitlines())
        return (
            f"{shlex.join([name, *arguments])} (a Slurm script of {lines} lines; --json shows all)"
        )
    words = [_shortened(word) for word in process.command]
    return " ".join(words) if process.shell else shlex.join(words)


def _shortened(word: str) -> str:
    lines = word.strip().splitlines()
    if len(lines) <= MOST_LINES:
        return word
    return f"{lines[0]} ... ({len(lines)} lines; --json shows all)"


def _span(seconds: float | None) -> str:
    from bastion.spec.values.quantity import text_of_seconds

    return text_of_seconds(seconds) if seconds else ""
