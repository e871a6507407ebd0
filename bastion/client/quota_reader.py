"""What a client reads of the quota file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.client.connection import Connection

if TYPE_CHECKING:
    from quota.tree import Quota


class QuotaReader(Connection):
    """The part of `Client` that reads the quota file. Its arguments are those of `Client`."""

    def quota(self) -> Quota:
        """
        The quota file as it lies in the bucket now.

        Raises:
            NotFoundError: There is none.
            SpecError: It is wrong: every problem, with its line.
            StoreError: Out of reach.
        """
        return self._quota_file.quota()

    def quota_in_force(self) -> Quota | None:
        """
        The last good quota file, which the bastion goes on with; None where none ever was.

        Raises:
            StoreError: Out of reach.
        """
        return self._quota_file.in_force()

    def quota_text(self) -> str:
        """
        The text of the quota file.

        Raises:
            NotFoundError: There is none.
            StoreError: Out of reach.
        """
        return self._quota_file.text()

    def quota_notes(self, quota: Quota) -> tuple[str, ...]:
        """
        Return what of `quota` has no effect in this bucket: windows of pools that it has not.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: Out of reach.
        """
        from bastion.client.change.quota_file import unknown_pools

        return tuple(unknown_pools(quota, self._published.pool_records()))
