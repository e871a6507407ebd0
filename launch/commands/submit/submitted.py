"""Notes after a submission: what was submitted, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launch.screen.notes import note
from launch.screen.render import write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import LaunchHandle

_LOOK_S = {True: 0.5, False: 4.0}
"""How long to wait for the first reason after a submission, on a folder and a cloud store."""


def tell_submitted(session: Session, handle: LaunchHandle, *, following: bool) -> None:
    """Print what was submitted."""
    try:
        if session.out.format == "json":
            session.out.json({"launch": handle.id, "project": handle.project, "jobs": handle.jobs})
        elif not following:
            write_lines(handle.jobs)
    except BrokenPipeError:
        raise
    except OSError:
        note(f"{', '.join(handle.jobs)} was submitted, but its id could not be printed:")
        raise


def tell_next(session: Session, handle: LaunchHandle) -> None:
    """Print why the first job waits or where it runs, and the next commands."""
    if session.is_quiet:
        return
    from bastion.phrases import after_phrase, state_phrase

    client = session.client
    until = client.clock.monotonic() + _LOOK_S[client.is_local]
    first = handle.status().jobs[0]
    while not first.text and client.clock.monotonic() < until:
        client.clock.sleep(client.poll_s)
        first = handle.status().jobs[0]
    why = after_phrase(first.state, first.text or "accepted; bastion why will say more soon")
    note(f"{first.id} {state_phrase(first.state)}{why}", is_prose=True)
    printed = f"{first.id}.{_some_task(handle)}" if handle.is_array else first.id
    goes_on = (
        (f"why {first.id}", "why it waits, or where it runs"),
        (f"logs {printed} -f", "follow its output"),
        (f"cancel {first.id}", "cancel it"),
    )
    has_ended = (
        (f"logs {printed}", "its output"),
        (f"show {first.id}", "its details"),
    )
    for verb, meaning in has_ended if first.has_ended else goes_on:
        note(f"  bastion {verb:<36} # {meaning}")


def _some_task(handle: LaunchHandle) -> int:
    """Return the index of its first task."""
    return next((task.task for task in handle.tasks if task.task is not None), 0)
