"""The local machines of one bucket on this host, for `bastion up` and `bastion down`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from launch.commands.here.removed_bucket import ENDING_S, until
from launch.errors import UsageError

if TYPE_CHECKING:
    from bastion.clock import Clock
    from bastion.provider.local import LocalProvider


class LocalMachines:
    """
    The local machines of the bucket `root`.

    Args:
        root: URL of the bucket.
        folder: The folder of the machines, possibly shared with other buckets.
        is_own: Whether only this bucket has machines there.
    """

    def __init__(self, root: str, folder: Path, clock: Clock, *, is_own: bool) -> None:
        self._root = root
        self._folder = folder
        self._clock = clock
        self._is_own = is_own

    def standing(self) -> frozenset[Path]:
        """Return the folders of the existing machines."""
        ours = self._folders()
        listed = {
            pool / machine.name
            for pool, provider in self._providers(ours).items()
            for machine in provider.list()
            if machine.state != "gone"
        }
        return frozenset(listed & ours)

    def end(self, folders: Iterable[Path]) -> None:
        """
        End machines, and wait until they have no processes.

        Raises:
            UsageError: They do not stop.
        """
        wanted = frozenset(folders)
        providers = self._providers(wanted)
        for folder in sorted(wanted):
            providers[folder.parent].delete(folder.name)
        if not until(self._clock, lambda: not wanted & self.standing(), ENDING_S):
            raise UsageError(
                f"machines in {self._folder} do not stop", hint="run bastion down again"
            )

    def _folders(self) -> frozenset[Path]:
        from bastion.provider.serving import machines_of

        return frozenset(machines_of(self._folder, self._root, is_own=self._is_own))

    def _providers(self, folders: Iterable[Path]) -> dict[Path, LocalProvider]:
        """Return the provider of each pool that has one of the folders."""
        from bastion.provider.local import LocalProvider

        pools = sorted({folder.parent for folder in folders})
        return {pool: LocalProvider(self._root, pool, self._clock) for pool in pools}
