"""What an upgrade keeps of a VM's script: everything that was not explicitly changed. Pure."""

from __future__ import annotations

import json
import re
import shlex

from bastion.errors import SpecError
from bastion.value import replace
from bastion.vm.bastion_vm import BastionVm

_SAID = re.compile(r"boot\.json\) <<'END'\n(\{.*\})\nEND\n")
_IN_CONTAINER = re.compile(r'^ *docker run .* "\$image" (serve .*)$', re.MULTILINE)
_IMAGE = re.compile(r"^image=(\S+)$", re.MULTILINE)


def renewed(vm: BastionVm, script: str) -> BastionVm:
    """
    Return `vm`, with the values it leaves out taken from `script`, which the VM runs now.

    Raises:
        SpecError: It serves another bucket, or this version cannot understand it.
    """
    words = _serve_words(script)
    if words is None:
        raise SpecError(
            f"--name: {vm.name} has a start-up script that this version does not know",
            hint="bastion delete, then bastion create: the bucket, its jobs and its machines stay",
        )
    flags = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
    if flags["root"] != vm.root_url:
        raise SpecError(
            f"--root: {vm.name} serves {flags['root']}, not {vm.root_url}",
            hint=f"bastion upgrade --root={flags['root']}; for another bucket make another VM",
        )
    port = flags.get("metrics_port")
    image = _IMAGE.search(script)
    return replace(
        vm,
        image=vm.image or (shlex.split(image[1])[0] if image else ""),
        quota_url=vm.quota_url or flags.get("quota", ""),
        metrics_port=vm.metrics_port if vm.metrics_port or not port else int(port),
        metrics_host=vm.metrics_host or flags.get("metrics_host", ""),
    )


def _serve_words(script: str) -> list[str] | None:
    """Return the words of `bastion serve` in it."""
    said, container = _SAID.search(script), _IN_CONTAINER.search(script)
    words = shlex.split(container[1]) if container else []
    if said:
        words = json.loads(said[1])["run"]
    return words if any(word.startswith("--root=") for word in words) else None
