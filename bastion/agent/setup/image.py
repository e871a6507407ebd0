"""
Pulling an image to this machine, by docker; its errors are shown in docker's own words.

An image on the machine is not pulled again. A digest always means the same image, and a bare tag
could not be resolved when its launch was submitted. The login is the one that docker's own client
would use on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bastion.agent.containers.engine import Engine, EngineError, EngineGoneError
from bastion.agent.keeper.port import MachineFaultError
from bastion.errors import BastionError
from bundler.errors import BundleError
from bundler.images.login import login_for
from bundler.images.reference import split_reference

PULL_S = 3600.0
"""Longest pull: 100 GiB at 30 MiB/s. It is bounded because devices wait for it."""

_SILENT_S = 600.0
"""Longest silence of a pull: docker reports nothing while it unpacks a large layer."""

_AWAY_S = 60.0
"""How long an engine may be away, for example for an upgrade, before it counts as missing."""

_SAY_S = 15.0
"""Between two lines of one pull in the agent's log."""


class ImageError(BastionError):
    """An image cannot be pulled to this machine; the message is docker's."""


def bring_image(
    ref: str,
    engine: Engine,
    say: Callable[[str], None],
    report: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Pull the image `ref`, unless it is on this machine.

    Args:
        ref: `[registry/]name[:tag][@sha256:digest]`.
        engine: This machine's engine.
        say: Writes a line to the agent's log now and then.
        report: Takes the progress, whenever docker reports it.
        clock: Returns the time in seconds.
        sleep: Waits.

    Raises:
        ImageError: It cannot be pulled, or took longer than `PULL_S`.
        MachineFaultError: The engine is away, or its disk is full: another machine may have the
            image, or room for it.
    """
    began = clock()
    gone_at: float | None = None
    while True:
        try:
            if not engine.has_image(split_reference(ref).exact):
                _pull(ref, engine, say, report, until=began + PULL_S, clock=clock)
                say(f"image {ref} is here after {clock() - began:.0f} s")
        except EngineError as error:
            kind = MachineFaultError if error.lacks_room else ImageError
            raise kind(f"image {ref} cannot be pulled: {error}") from error
        except EngineGoneError as error:
            gone_at = clock() if gone_at is None else gone_at
            if clock() - gone_at > _AWAY_S:
                raise MachineFaultError(f"image {ref} cannot be pulled: {error}") from error
            sleep(1.0)
        else:
            return


def _pull(
    ref: str,
    engine: Engine,
    say: Callable[[str], None],
    report: Callable[[str], None],
    *,
    until: float,
    clock: Callable[[], float],
) -> None:
    name = split_reference(ref)
    try:
        login = login_for(name.registry)
    except BundleError as error:
        raise ImageError(f"image {ref} cannot be pulled: {error}", hint=error.hint) from error
    header = login.header if login else ""
    layers: dict[str, tuple[int, int]] = {}
    say_at = clock() + _SAY_S
    for line in engine.pull(name.exact, header):
        _record_progress(line, layers)
        report(f"pulling its image, {_so_far(layers)}")
        if clock() >= say_at:
            say(f"image {ref}: {_so_far(layers)}")
            say_at = clock() + _SAY_S
        if clock() >= until:
            what = f"it is not complete after {PULL_S / 60:g} min: {_so_far(layers)}"
            raise ImageError(
                f"image {ref} cannot be pulled: {what}",
                hint="docker keeps finished layers: pull it on the machine beforehand",
            )


def _record_progress(line: dict[str, Any], layers: dict[str, tuple[int, int]]) -> None:
    """Record the progress of a layer: docker reports each layer separately."""
    progress = line.get("progressDetail") or {}
    if line.get("status") == "Downloading" and "total" in progress:
        layers[str(line["id"])] = int(progress.get("current", 0)), int(progress["total"])
    elif line.get("status") in ("Download complete", "Pull complete") and line["id"] in layers:
        total = layers[line["id"]][1]
        layers[line["id"]] = total, total


def _so_far(layers: dict[str, tuple[int, int]]) -> str:
    done, total = (sum(each) / (1 << 20) for each in zip(*layers.values(), (0, 0)))
    return f"{done:.0f} of {total:.0f} MiB so far"
