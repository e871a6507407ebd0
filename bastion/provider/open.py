"""
`open_provider`: from a pool to its provider; the only place that chooses between adapters.

Adapters are imported here, when they are chosen, so that unused cloud SDKs are not imported.
"""

from __future__ import annotations

from pathlib import Path

from bastion.clock import SystemClock
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.port import Provider

PROVIDERS = ("local", "ssh", "fake")
"""The providers that a pool may name."""

OPTIONS = {"ssh": ("folder", "python", "ssh_config")}
"""What `options` of a pool may hold, by provider."""


def open_provider(pool: Pool, *, root_url: str, machines_dir: Path) -> Provider:
    """
    Return the provider of `pool`; pools of one provider share its machines by name.

    Args:
        pool: A pool of `config/bastion.toml`.
        root_url: The bucket that its machines' agents serve.
        machines_dir: Folder of a local provider's machines.

    Raises:
        SpecError: There is no such provider.
    """
    match pool.provider:
        case "local":
            from bastion.provider.build import build_digest
            from bastion.provider.local import LocalProvider

            return LocalProvider(
                root_url,
                machines_dir / pool.name,
                SystemClock(),
                build=build_digest(),
                keep_work_s=pool.keep_work_s,
                run_as=pool.run_as,
            )
        case "ssh":
            from bastion.provider.build import build_digest
            from bastion.provider.ssh import SshProvider

            return SshProvider(root_url, pool, build=build_digest())
        case "fake":
            from bastion.provider.fake import FakeProvider

            return FakeProvider(SystemClock())
        case _:
            raise SpecError(
                f"pools.{pool.name}.provider: {pool.provider!r} is unknown;"
                f" must be one of {', '.join(PROVIDERS)}"
            )
