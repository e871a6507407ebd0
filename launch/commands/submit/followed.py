"""After a submission: following it to its end."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from launch import exits
from launch.screen.followed import Teller, tell_ended, write
from launch.screen.notes import note
from launch.screen.printout import Printout
from launch.screen.progress import bar
from launch.session import Session

if TYPE_CHECKING:
    from bastion.client import LaunchHandle


def _wait_for_tasks(session: Session, handle: LaunchHandle) -> int:
    """Show the progress of an array until all of its tasks have ended; Ctrl-C detaches."""
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
        note(f"detached; {handle.id} continues; to wait for it again: bastion wait {handle.id}")
        return exits.DETACHED
    tell_ended(session.out, array)
    return exits.of_job(array)


def follow(session: Session, handle: LaunchHandle) -> int:
    """Follow the logs of all jobs, then wait for their ends; Ctrl-C detaches."""
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
        again = "wait for" if several else "follow"
        note(f"detached; {handle.id} continues; to {again} it again: bastion {back}")
        return exits.DETACHED
    if not session.is_quiet:
        out.end_line()
    for job in ended:
        tell_ended(session.out, job)
    return exits.of_jobs(ended)
