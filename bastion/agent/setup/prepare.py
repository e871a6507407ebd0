"""
The steps before a host's processes can start: its secrets, its folders and code, its Python
environment.

Secrets come first, since they fail soonest. Their values are held here, in memory, until the keeper
has them. An agent that dies before that leaves none behind, and the next agent reads them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from bastion.agent.errands import Errands
from bastion.agent.home import Folders, Home
from bastion.agent.machine.job_files import create_file
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.code_setup import SetUpError, set_up
from bastion.agent.setup.python_env import BuildError, Recipe, build, recipe_of, take
from bastion.agent.setup.run_as import closed_above, give_contents, hand_over
from bastion.agent.setup.secret_values import values_of
from bastion.logs.segments import LogMismatchError, write_segment
from bastion.machine import Start
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.spec.code import ImageRef
from bastion.spec.launch import Job, Launch
from bastion.store.port import ObjectStore
from bastion.value import value
from bundler.images.reference import split_reference


class SetupContext(Protocol):
    """The parts of an agent that `prepare` needs."""

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        ...

    @property
    def errands(self) -> Errands:
        """The agent's background work."""
        ...

    @property
    def home(self) -> Home:
        """The agent's folders."""
        ...

    @property
    def settings(self) -> AgentSettings:
        """The agent's settings."""
        ...

    @property
    def say(self) -> Callable[[str], None]:
        """Takes one line for the agent's log."""
        ...


@value
class Prepared:
    """The result of a host's preparation."""

    folders: Folders
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by name."""
    secret_files: Mapping[str, str] = field(default_factory=dict)
    """Paths of the secrets that are also files, by name."""
    image: str = ""
    """The pulled image that its processes run in; empty: they run on the machine itself."""
    recipe: Recipe | None = None
    """The recipe of the Python environment that it needs; None if it needs none."""
    python: str = ""
    """The path of that environment, once it exists."""

    @property
    def is_whole(self) -> bool:
        """Whether the host can start."""
        return self.recipe is None or bool(self.python)


def is_quick(launch: Launch, job: Job, of: HostFact) -> bool:
    """Whether preparation only creates three folders, with no remote call: not worth a lane."""
    return launch.code is None and of.attempt == 1 and not job.every_secret


def prepare(
    context: SetupContext,
    key: str,
    of: HostFact,
    launch: Launch,
    job: Job,
    start: Start,
    report: Callable[[str], None],
) -> Prepared:
    """
    Prepare the host that `start` names; in a lane, unless it `is_quick`.

    `report` takes the current step, for the progress that users see.

    Raises:
        SetUpError: It failed, and a retry would not help.
        StoreError: The store is out of reach.
    """
    if context.settings.run_as is not None:
        context.home.take_back(key)
    secrets = values_of(job.every_secret, start.secrets, context.settings, project=start.project)
    code = launch.code
    settings, say = context.settings, context.say
    folders = set_up(context.home, context.store, key, of, code, settings, say=say, report=report)
    wanted = {each.name: secrets[each.name] for each in job.every_secret if each.file}
    files = _written(wanted, Path(folders.secrets))
    recipe = None
    if launch.python is not None:
        recipe = recipe_of(launch.python, Path(folders.code), context.home.cache)
    prepared = Prepared(
        folders=folders,
        secrets=secrets,
        secret_files=files,
        image=split_reference(code.ref).exact if isinstance(code, ImageRef) else "",
        recipe=recipe,
    )
    if settings.run_as is not None:
        with _ownership_errors():
            give_contents(folders.marks, settings.run_as)
    return _handed_over(prepared, settings) if prepared.is_whole else prepared


def _handed_over(prepared: Prepared, settings: AgentSettings) -> Prepared:
    if settings.run_as is not None:
        with _ownership_errors():
            hand_over(prepared.folders.marks, settings.run_as)
    return prepared


@contextmanager
def _ownership_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SetUpError(f"its folders cannot be given to its user: {error}") from error


def with_python(
    context: SetupContext,
    of: HostFact,
    prepared: Prepared,
    *,
    now: float,
    otherwise: Callable[[Exception], None],
    waits: Callable[[], bool],
) -> Prepared:
    """
    Return `prepared`, whole if its Python environment exists; else start a build, and call again.

    One host builds an environment while the other hosts that need it wait, without a lane.
    `otherwise` gets the exception of the build, if the build is this host's, and that of an
    interpreter that the user of jobs cannot reach. A build that no host `waits` for is ended.
    """
    recipe = prepared.recipe
    assert recipe is not None
    python = take(recipe, Path(prepared.folders.python))
    if python:
        try:
            _check_reach(f"{python}/bin/python", context.settings)
        except SetUpError as error:
            otherwise(error)
            return prepared
        return _handed_over(replace(prepared, python=python), context.settings)
    errand = f"python {recipe.digest}"
    work = partial(_build, context, of, recipe, partial(context.errands.is_wanted, errand))
    context.errands.send(
        errand, work, _done, now=now, otherwise=otherwise, is_slow=True, waits=waits
    )
    return prepared


def _check_reach(python: str, settings: AgentSettings) -> None:
    """Raise SetUpError if the user of jobs cannot reach the interpreter behind `python`."""
    found = os.path.realpath(python)
    closed = "" if settings.run_as is None else closed_above(found, settings.run_as)
    if closed:
        raise SetUpError(
            f"python: user {settings.user} of this machine's jobs cannot reach {found}:"
            f" {closed} is closed to it",
            hint="install a Python for all users on the machine, such as python3 of the system",
        )


def _build(
    context: SetupContext, of: HostFact, recipe: Recipe, is_wanted: Callable[[], bool]
) -> None:
    """Build, in the lane; the output of a failed build is the log of the first process."""
    try:
        mark = f"{os.path.realpath(context.home.cache.parent)}:python"
        build(recipe, mark=mark, environ=context.settings.environ, is_wanted=is_wanted)
    except BuildError as error:
        prefix = layout.log(
            of.project, of.job, of.attempt, replica=of.replica, host=of.host, process=0
        )
        with suppress(LogMismatchError):  # an earlier agent's build failed too
            write_segment(context.store, prefix, 0, error.printed)
        raise


def _done(_: None) -> None:
    """Do nothing: the next call of `with_python` finds the environment."""


def _written(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write `values` into files of `folder` that only their user can read; return paths by name."""
    if not values:
        return {}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for name, text in values.items():
            # A file of an agent that died before the start may already exist.
            with create_file(str(folder / name), mode=0o600) as out:
                out.write(text.encode())
    except OSError as error:
        raise SetUpError(f"files of its secrets cannot be written: {error}") from error
    return {name: str(folder / name) for name in values}
