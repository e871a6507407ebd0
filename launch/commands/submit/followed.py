"""After a submission: what is printed, what one types next, and following it to its end."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from launch import exits
from launch.screen.followed import Teller, tell_ended, write
from launch.screen.notes import note
from launch.screen.printout import Printout
from launch.screen.progress import bar
from launch.screen.render import write_lines
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import LaunchHandle

_LOOK_S = {True: 0.5, False: 4.0}
"""How long to look for the first reason after a submit, on a folder and on a cloud store."""


def tell_submitted(session: Session, handle: LaunchHandle, *, following: bool) -> None:
    """Print what was submitted, and what one should look at in its code."""
    for warning in handle.warnings:
        note(f"warning: {warning}")
    try:
        if session.out.format == "json":
            session.out.json({"launch": handle.id, "project": handle.project, "jobs": handle.jobs})
        elif not following:
            write_lines(handle.jobs)
    except BrokenPipeError:
        raise
    except OSError:
        note(f"{', '.join(handle.jobs)} was submitted; its id could not be printed:")
        raise


def tell_next(session: Session, handle: LaunchHandle) -> None:
    """Why the first job waits or where it runs, and what one types next."""
    if session.is_quiet:
        return
    from bastion.lifecycle.phrases import after_phrase, state_phrase

    client = session.client
    until = client.clock.monotonic() + _LOOK_S[client.is_local]
    first = handle.status().jobs[0]
    while not first.text and client.clock.monotonic() < until:
        client.clock.sleep(client.poll_s)
        first = handle.status().jobs[0]
    why = after_phrase(first.state, first.text or "taken; bastion why will say more soon")
    note(f"{first.id} {state_phrase(first.state)}{why}")
    printed = f"{first.id}.{_some_task(handle)}" if handle.is_array else first.id
    goes_on = (
        (f"why {first.id}", "why it waits, or where it runs"),
        (f"logs {printed} -f", "what it prints"),
        (f"cancel {first.id}", "end it"),
    )
    has_ended = (
        (f"logs {printed}", "what it printed"),
        (f"show {first.id}", "everything known of it"),
    )
    for verb, meaning in has_ended if first.has_ended else goes_on:
        note(f"  bastion {verb:<36} # {meaning}")


def _some_task(handle: LaunchHandle) -> int:
    """The index of its first task."""
    return next((task.task for task in handle.tasks if task.task is not None), 0)


def _wait_for_tasks(session: Session, handle: LaunchHandle) -> int:
    """Tell how far the tasks of an array are until all have ended; Ctrl-C detaches."""
    from bastion.client.look.views import ENDED
    from bastion.errors import StoreError

    if not session.is_quiet:
        note(f"waiting for the tasks of {handle.id}; Ctrl-C detaches and does not stop them")
    tell = Teller(Printout(session.client.clock), quiet=session.is_quiet, states_only=True)
    try:
        with bar(shown=not session.is_quiet) as draw:

            def look(_: int, __: int) -> None:
                with suppress(StoreError):
                    array = handle.status().jobs[0]
                    tell(array)
                    ended = sum(n for state, n in array.counts.items() if state in ENDED)
                    draw("tasks", ended, sum(array.counts.values()))

            places = {handle.id: handle.project}
            (array,) = session.client.watch.wait(places, report=look)
    except KeyboardInterrupt:
        note(f"detached; {handle.id} goes on, bastion wait {handle.id} comes back to it")
        return exits.DETACHED
    tell_ended(session.out, session.client.clock, array)
    return exits.of_job(array)


def follow(session: Session, handle: LaunchHandle) -> int:
    """Follow the logs of all jobs, then wait for all; Ctrl-C detaches."""
    if handle.is_array:
        return _wait_for_tasks(session, handle)
    client, args, out = session.client, session.args, Printout(session.client.clock)
    several = len(handle.jobs) > 1
    if not session.is_quiet:
        jobs = f"the {len(handle.jobs)} jobs of {handle.id}" if several else handle.id
        them = "them" if several else "it"
        note(f"following {jobs}; Ctrl-C detaches and does not stop {them}")
    try:
        names = {job: f"{name}/" for job, name in zip(handle.jobs, handle.names) if several}
        is_gang = args.replicas != 1 or any(job.replicas > 1 for job in handle.status().jobs)
        prefix = several or (is_gang and sys.stdout.isatty())
        tell = Teller(out, quiet=session.is_quiet)
        places = dict.fromkeys(handle.jobs, handle.project)
        chunks = client.following.of_new(places, tell=tell)
        write(chunks, out, prefix=prefix, several=is_gang, of=names)
        ended = handle.wait().jobs
    except KeyboardInterrupt:
        out.end_line()
        back = f"wait {handle.id}" if several else f"logs {handle.id} -f"
        note(f"detached; {handle.id} goes on, bastion {back} comes back to it")
        return exits.DETACHED
    if not session.is_quiet:
        out.end_line()
    for job in ended:
        tell_ended(session.out, session.client.clock, job)
    return exits.of_jobs(ended)
