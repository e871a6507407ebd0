"""A client's reads of the quota file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bastion.client.connection import Connection

if TYPE_CHECKING:
    from quota.tree import Quota


class QuotaReader(Connection):
    """The part of `Client` that reads the quota file. Its arguments are those of `Client`."""

    def quota(self) -> Quota:
        """
        Return the quota file that is in the bucket now.

        Raises:
            NotFoundError: There is no quota file.
            SpecError: It is invalid; the error lists every problem with its line.
            StoreError: The bucket is unreachable.
        """
        return self._quota_file.quota()

    def quota_in_force(self) -> Quota | None:
        """
        Return the last good quota file, which the bastion uses; None if there never was one.

        Raises:
            StoreError: The bucket is unreachable.
        """
        return self._quota_file.in_force()

    def quota_text(self) -> str:
        """
        Return the text of the quota file.

        Raises:
            NotFoundError: There is no quota file.
            StoreError: The bucket is unreachable.
        """
        return self._quota_file.text()

    def quota_notes(self, quota: Quota) -> tuple[str, ...]:
        """
        Return what in `quota` has no effect in this bucket: windows of pools that it does not have.

        Raises:
            NotFoundError: No bastion has published anything here yet.
            StoreError: The bucket is unreachable.
        """
        from bastion.client.change.quota_file import unknown_pools

        return tuple(unknown_pools(quota, self._published.pool_records()))
