"""One command: its client, created on first use, and its output."""

from __future__ import annotations

import argparse
import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from bastion.errors import NotFoundError
from bastion.profile import Profile, surrounding
from launch.errors import UsageError
from launch.screen.notes import note
from launch.screen.render import Output
from launch.settings import chosen

if TYPE_CHECKING:
    from bastion.client import Client


class Session:
    """
    The state that the verbs share.

    Args:
        args: The parsed command line.

    Raises:
        UsageError: It names two output formats.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self._form = _form(args)

    @cached_property
    def profile(self) -> Profile:
        """
        The bastion, user and project of this command.

        Raises:
            UsageError: No bastion is named anywhere.
        """
        args = self.args
        found = chosen(
            root=args.root, bastion=args.bastion, user=args.user_id, project=args.project_id
        )
        if not found.root:
            raise UsageError(
                "no bastion named: set --root, --bastion, BASTION_ROOT or a profile",
                hint="give --root=URL, or save it: bastion config set root=URL;"
                " to start a first bastion in a folder here: bastion up --root=bucket",
            )
        return found

    @property
    def root_flag(self) -> str:
        """The flag that a suggested command needs to name this bastion: ` --root=URL`, or empty."""
        from shlex import quote

        root = self.profile.root
        return "" if surrounding().root == root else f" {quote(f'--root={root}')}"

    @cached_property
    def client(self) -> Client:
        """
        The client of that bastion.

        Raises:
            UsageError: No bastion is named anywhere.
            BastionError: The root URL cannot be a store.
        """
        from bastion.client import Client

        profile = self.profile
        return Client(profile.root, user=profile.user or None, project=profile.project or None)

    @cached_property
    def out(self) -> Output:
        """The output of this command."""
        return Output(
            format=self._form,
            colored=wants_color(self.args.color),
            terminal=sys.stdout.isatty(),
            date=self._date,
        )

    def _date(self) -> float:
        """The time by the bucket's clock, once this command has opened it."""
        if "client" in vars(self):
            return self.client.now()
        from bastion.clock import SystemClock

        return SystemClock().wall()

    def again(self) -> Session:
        """Return a new session for the same verb that keeps its client."""
        other = Session(self.args)
        other.client = self.client
        return other

    def note_absence(self) -> None:
        """Note after a view that no bastion leads, so the view may be outdated."""
        if not self.is_quiet and (absence := self.client.presence.absence()):
            note(f"{absence}; {self._what_goes_on()}", is_prose=True)

    def note_silence(self) -> None:
        """Note that no bastion leads or publishes, and the last warning of one that fell silent."""
        self.note_absence()
        if self.is_quiet:
            return
        try:
            status = self.client.status()
        except NotFoundError:
            return
        if status.delay:
            note(status.delay)
        if status.last_words:
            note(f"problem: {status.last_words}")

    def _what_goes_on(self) -> str:
        """Return what happens to jobs while no bastion leads, as far as this machine can know."""
        from bastion.client.status.local_machines import CONTINUE, RESTART

        return RESTART if self.has_ended_machines else CONTINUE

    @cached_property
    def has_ended_machines(self) -> bool:
        """Whether no bastion leads, and its machines, all local to this host, have ended."""
        if not self.client.presence.absence():
            return False
        status = self.client.status()
        if not status.machines_dir:
            return False
        from bastion.client.status.local_machines import have_ended

        try:
            pools = self.client.pool().pools
        except NotFoundError:
            return False
        return have_ended(status, pools, self.profile.root)

    @property
    def is_quiet(self) -> bool:
        """Whether only data is printed."""
        return self.out.is_quiet


def _form(args: argparse.Namespace) -> str:
    """Return the output format that the one given flag names."""
    output = getattr(args, "output", "table")
    flags = {f"-o {output}": output} if output != "table" else {}
    flags |= {"--json": "json"} if getattr(args, "json", False) else {}
    flags |= {"-q": "name"} if getattr(args, "quiet", False) else {}
    if len({*flags.values()}) > 1:
        raise UsageError(f"{' and '.join(flags)} are different output formats; give only one")
    return next(iter(flags.values()), output)


def wants_color(flag: str) -> bool:
    """Whether to use color: the flag, then NO_COLOR and TERM=dumb, then if this is a terminal."""
    if flag != "auto":
        return flag == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()
