"""
The values of secrets, read on the machine just before the processes start.

    env:NAME    the agent's own variable BASTION_SECRET_<NAME>, and no other of its variables
    file:PATH   a plain file below the agent's folder of secrets; a link that leads out is refused
    gcp:, aws:, azure:
                the cloud's secret manager, queried with the machine's own identity

The bastion decides which source a job may use; the instruction carries the decision. This file is
the second check, by what this machine may read. No error and no log ever contains a value: for an
unexpected exception of a library, only its type is shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from bastion.agent.settings import AgentSettings
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.secret_sources import BusyError, of_amazon, of_azure, of_google
from bastion.clock import Clock, SystemClock
from bastion.secret_rules import SecretRule
from bastion.spec.secret import MAX_SECRET_BYTES, MIN_SECRET_BYTES, Secret

VARIABLE_PREFIX = "BASTION_SECRET_"
"""Prefix of the agent's variables that jobs may get, so that no other variable leaks."""

_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Backoff between tries of a secret manager; a start fails after the last."""

_CLOCK = SystemClock()
"""Pauses between real calls, which no simulation makes."""


def values_of(
    secrets: Iterable[Secret],
    granted: Mapping[str, str],
    settings: AgentSettings,
    *,
    project: str,
    clock: Clock = _CLOCK,
) -> dict[str, str]:
    """
    Read the value of each of `secrets`; return them by name.

    Args:
        secrets: The secrets that the job requests.
        granted: The sources that its start instruction names, by name.
        settings: The agent's settings.
        project: The job's project.
        clock: For the pauses between tries.

    Raises:
        SetUpError: One cannot be read; the message names it, and never a value.
    """
    return {
        each.name: _value(each.name, granted.get(each.name), settings, project, clock)
        for each in secrets
    }


def _value(
    name: str, source: str | None, settings: AgentSettings, project: str, clock: Clock
) -> str:
    if source is None:
        raise SetUpError(
            f"secret {name}: this job may no longer use it",
            hint="config/bastion.toml has the rules of secrets",
        )
    if not _is_for(project, source, settings.secret_sources):
        raise SetUpError(
            f"secret {name}: {source}: this machine does not read it for project {project}",
            hint=f"its agent may be started with --secret_source={project}={source}",
        )
    try:
        return _text(_read(source, settings, clock))
    except SetUpError as error:
        raise SetUpError(f"secret {name}: {source}: {error}", hint=error.hint) from None


def _is_for(project: str, source: str, listed: tuple[SecretRule, ...]) -> bool:
    """
    Whether this machine reads `source` for `project`, independent of the instruction.

    A project may always read its own folder. Without a list it may also read what the machine's
    variables and its identity permit, but no file of another folder.
    """
    if source.startswith(f"file:{project}/") and ".." not in source.split("/"):
        return True
    if any(rule.allows(project) and rule.covers(source) for rule in listed):
        return True
    return not listed and not source.startswith("file:")


def _text(data: bytes) -> str:
    """
    Decode `data` as the value of a variable.

    Raises:
        SetUpError: No variable can hold it, or it could not be masked.
    """
    if len(data) > MAX_SECRET_BYTES:
        raise SetUpError(f"more than {MAX_SECRET_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise SetUpError("not UTF-8 text without NUL, as a variable must be; store it as base64")
    # The last line end comes from an editor, and is not part of a token.
    text = text.removesuffix("\n").removesuffix("\r")
    size = len(text.encode())
    if size < MIN_SECRET_BYTES:
        raise SetUpError(
            f"{size} bytes; a secret must have at least {MIN_SECRET_BYTES}: masking a shorter one"
            " in logs would also hide ordinary words"
        )
    return text


def _read(source: str, settings: AgentSettings, clock: Clock) -> bytes:
    kind, _, rest = source.partition(":")
    match kind:
        case "env":
            return _of_environment(rest, settings.environ)
        case "file":
            return _of_file(rest, Path(settings.secrets_dir))
        case "gcp":
            return _with_retries(partial(of_google, rest, settings.environ), clock)
        case "aws":
            return _with_retries(partial(of_amazon, rest), clock)
        case "azure":
            return _with_retries(partial(of_azure, rest), clock)
        case _:
            raise SetUpError("this machine's Bastion does not know this kind of source")


def _with_retries(query: Callable[[], bytes], clock: Clock) -> bytes:
    """Query a secret manager; retry while it is busy."""
    pauses = iter(_PAUSES_S)
    while True:
        try:
            return query()
        except SetUpError:
            raise
        except BusyError as error:
            pause_s = next(pauses, None)
            if pause_s is None:
                raise SetUpError(str(error)) from None
            clock.sleep(pause_s)
        except ImportError as error:
            raise SetUpError(
                f"the agent is missing a library for it: {error.name}",
                hint="install bastion-orchestrator[gcp], [aws] or [azure] on the machine",
            ) from None
        except Exception as error:  # noqa: BLE001 - its text may hold the value
            raise SetUpError(f"cannot be read: {type(error).__name__}") from None


def _of_environment(name: str, environ: Mapping[str, str]) -> bytes:
    variable = f"{VARIABLE_PREFIX}{name}"
    found = environ.get(variable)
    if found is None:
        raise SetUpError(f"this machine's agent has no variable {variable}")
    return os.fsencode(found)


def _of_file(path: str, folder: Path) -> bytes:
    place = Path(os.path.realpath(folder / path))
    if not place.is_relative_to(os.path.realpath(folder)):
        raise SetUpError(f"leads out of this machine's folder of secrets, {folder}")
    inside = f"in this machine's folder of secrets, {folder}"
    try:
        mode = place.stat().st_mode
        if not stat.S_ISREG(mode):
            found = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise SetUpError(f"{found}, not a file, {inside}")
        with place.open("rb") as file:
            return file.read(MAX_SECRET_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise SetUpError(f"no such file {inside}") from None
    except OSError as error:
        raise SetUpError(f"{place} cannot be read: {error.strerror}") from None
