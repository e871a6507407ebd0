"""
Bringing an image to this machine: docker pulls it and keeps it, in its own words if it cannot.

An image that is here is not pulled again: a digest is the same image for ever, and what only has a
tag was not to be resolved when its launch was submitted. Whatever login docker's own client would
use on this machine is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bastion.agent.containers.engine import Engine, EngineError, EngineGoneError
from bastion.errors import BastionError
from bundler.errors import BundleError
from bundler.login import login_for
from bundler.reference import split_reference

PULL_S = 3600.0
"""Longest pull: 100 GiB at 30 MiB/s. Devices wait for it, so it is not for ever."""

_SILENT_S = 600.0
"""Longest silence of one: docker says nothing while it unpacks a large layer."""

_AWAY_S = 60.0
"""How long an engine may be away, as when it is upgraded, before it counts as missing."""

_SAY_S = 15.0
"""Between two lines about one pull in the agent's log."""


class ImageError(BastionError):
    """An image cannot be had on this machine; the message is docker's."""


def bring_image(
    ref: str,
    engine: Engine,
    say: Callable[[str], None],
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Return when the image `ref` is on this machine.

    Args:
        ref: `[registry/]name[:tag][@sha256:digest]`.
        engine: Of this machine.
        say: Takes a line for the agent's log now and then.
        tell: Is told how far it is, whenever docker says it.
        clock: In seconds.
        sleep: Waits.

    Raises:
        ImageError: It cannot be had, or took longer than `PULL_S`.
    """
    began = clock()
    gone_at: float | None = None
    while True:
        try:
            if not engine.has_image(split_reference(ref).exact):
                _pull(ref, engine, say, tell, until=began + PULL_S, clock=clock)
                say(f"image {ref} is here after {clock() - began:.0f} s")
        except EngineError as error:
            raise ImageError(f"image {ref} cannot be pulled: {error}") from error
        except EngineGoneError as error:
            gone_at = clock() if gone_at is None else gone_at
            if clock() - gone_at > _AWAY_S:
                raise ImageError(f"image {ref} cannot be pulled: {error}") from error
            sleep(1.0)
        else:
            return


def _pull(
    ref: str,
    engine: Engine,
    say: Callable[[str], None],
    tell: Callable[[str], None],
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
    for said in engine.pull(name.exact, header):
        _count(said, layers)
        tell(f"its image is pulled, {_so_far(layers)}")
        if clock() >= say_at:
            say(f"image {ref}: {_so_far(layers)}")
            say_at = clock() + _SAY_S
        if clock() >= until:
            what = f"it is not here after {PULL_S / 60:g} min: {_so_far(layers)}"
            raise ImageError(
                f"image {ref} cannot be pulled: {what}",
                hint="docker keeps the layers that came: pull it on the machine beforehand",
            )


def _count(said: dict[str, Any], layers: dict[str, tuple[int, int]]) -> None:
    """Note how far a layer is: docker tells of each apart."""
    progress = said.get("progressDetail") or {}
    if said.get("status") == "Downloading" and "total" in progress:
        layers[str(said["id"])] = int(progress.get("current", 0)), int(progress["total"])
    elif said.get("status") in ("Download complete", "Pull complete") and said["id"] in layers:
        total = layers[said["id"]][1]
        layers[said["id"]] = total, total


def _so_far(layers: dict[str, tuple[int, int]]) -> str:
    came, total = (sum(each) / (1 << 20) for each in zip(*layers.values(), (0, 0)))
    return f"{came:.0f} of {total:.0f} MiB have come"
