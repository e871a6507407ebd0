"""
`Admin`: admin operations on a bucket, from Python.

It reads and writes the bucket as the bastion does, without the inbox, so it needs the rights of the
bastion or of an admin. `Client` is for users and does not depend on the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from bastion.client.other_names import told_misfits
from bastion.client.patience import Outage, PatientStore, first_contact_s
from bastion.clock import Clock, SystemClock
from bastion.errors import BastionError, SpecError, StoreError
from bastion.profile import as_url, surrounding
from bastion.store.open import open_store
from bastion.store.port import ObjectStore

if TYPE_CHECKING:
    from bastion.machine import Pool
    from bastion.provider.port import Provider
    from bastion.records.root import Root
    from bastion.service.access.grants import Grant, People
    from bastion.service.access.place import Place
    from bastion.service.repair.fsck import Finding
    from bastion.service.repair.inventory import Inspection, Odd
    from bastion.service.repair.restore import Restore
    from quota.tree import Project, Quota


@told_misfits
class Admin:
    """
    The bucket of one bastion, for its admins.

    Args:
        root: URL of its bucket, or the path of its folder; by default the root that the command
            line uses here.
        store: An open store to use instead of the one that `root` names.
        clock: For waits and timeouts; the system clock by default.

    Raises:
        SpecError: No root is given, and none is configured.
    """

    def __init__(
        self, root: str | Path = "", *, store: ObjectStore | None = None, clock: Clock | None = None
    ) -> None:
        self.root = as_url(root) or surrounding().root
        if not self.root:
            raise SpecError(
                "no bastion named: neither a root, BASTION_ROOT nor a profile",
                hint="Admin('gs://bucket/bastion'), or save it: bastion config set root=URL",
            )
        self.clock = clock or SystemClock()
        self._given = store

    @cached_property
    def store(self) -> ObjectStore:
        """The bucket, opened when first used: printing commands needs no login."""
        opened = open_store(self.root) if self._given is None else self._given
        # An audit reads thousands of objects, so a short outage must not end it.
        first_s = first_contact_s(self.root)
        return PatientStore(opened, Outage(self.clock), self.clock, first_s=first_s)

    def fsck(self, *, since_s: float = inf) -> tuple[Finding, ...]:
        """
        Return the protocol violations that two surveys show; none if the bucket is consistent.

        Args:
            since_s: Objects that belong to nothing active are read only if they are at most this
                old.

        Raises:
            NotFoundError: The bucket has no root.
            RecordError: Its root cannot be decoded.
            StoreError: The bucket is out of reach.
        """
        from bastion.service.config.settings import pace_of
        from bastion.service.repair.fsck import audit

        return audit(self.store, self.clock, pace=pace_of(self.root), since_s=since_s)

    def restoring(self, snapshot: str = "") -> Restore:
        """
        Return the restore of a copy of root. It shows its changes; its `commit()` applies them.

        Args:
            snapshot: The key of the copy; the newest by default.

        Raises:
            NotFoundError: There is no such copy, or none at all.
            RecordError: The copy cannot be decoded.
            StoreError: The bucket is out of reach.
        """
        from bastion.service.repair.restore import Restore

        return Restore(self.store, self.clock, key=snapshot)

    def inspection(self) -> Inspection:
        """
        Compare the machines that providers have with root, using the credentials in use here.

        Raises:
            NotFoundError: The bucket has no root.
            RecordError: Its root cannot be decoded.
            SpecError: `config/bastion.toml` is not valid; every problem is listed.
            StoreError: The bucket is out of reach.
        """
        from bastion.pool import left_zones
        from bastion.service.repair.inventory import (
            UNLISTED,
            Inspection,
            Odd,
            lacking_or_why,
            listed_or_why,
            odd_machines,
            silent_machines,
            standing_count,
            unreached_hosts,
        )

        pools = self._pools()
        left = left_zones(pools, self._root().machines)
        providers = {
            name: self._provider(pool, left[name])
            for name, pool in pools.items()
            if pool.provider not in UNLISTED
        }
        seen = {name: listed_or_why(provider) for name, provider in providers.items()}
        rights = {
            name: lacking_or_why(providers[name])
            for name, listed in seen.items()
            if not isinstance(listed, str)
        }
        root = self._root()
        unreached = {name: tuple(unreached_hosts(pools[name], providers[name])) for name in seen}
        odd: list[Iterable[Odd]] = [
            odd_machines(
                pools[name],
                listed,
                root.machines,
                seq=root.seq,
                now=root.now,
                unreached={host.zone for host in unreached[name]},
            )
            for name, listed in seen.items()
            if not (isinstance(listed, str) and unreached[name])
        ]
        odd += unreached.values()
        unlisted = tuple(sorted(pools.keys() - seen.keys()))
        odd += [silent_machines(pools[name], root.machines, root.now) for name in unlisted]
        lacks = [
            Odd(pool=name, kind="rights", text=text)
            for name, found in rights.items()
            for text in (() if isinstance(found, str) else found)
        ]
        return Inspection(
            bucket=root.bucket,
            listed={
                name: standing_count(each) for name, each in seen.items() if isinstance(each, tuple)
            },
            unlisted=unlisted,
            unchecked={name: why for name, why in rights.items() if isinstance(why, str)},
            odd=(*lacks, *(each for found in odd for each in found)),
        )

    def delete_orphans(self, found: Inspection) -> Iterator[tuple[Odd, str]]:
        """
        Delete the orphans of an inspection, one after the other.

        Yields:
            Each orphan, and why it could not be deleted; empty if its deletion has started.
        """
        from bastion.service.repair.inventory import delete_orphans

        pools = self._pools()
        zones = {each.pool: set[str]() for each in found.odd}
        for each in found.odd:
            zones[each.pool].add(each.zone)
        return delete_orphans(found.odd, lambda pool: self._provider(pools[pool], zones[pool]))

    def uninstall(self, host: str, *, pool: str = "") -> str:
        """
        Remove everything of Bastion from one of your own hosts that no pool names any longer.

        Args:
            host: Its name for OpenSSH, with the configuration in use here.
            pool: The ssh pool whose settings lead to the host; needed if pools differ in them.

        Returns:
            Why something is kept, for example because another bucket has a machine there; else
            empty.

        Raises:
            NotFoundError: The bucket has no root.
            ProviderUnavailableError: The host cannot be reached, or its contents are unknown.
            SpecError: A pool names the host, the records have a machine there, or the configuration
                is not valid.
            StoreError: The bucket is out of reach.
        """
        from bastion.provider.build import build_digest
        from bastion.provider.own_hosts.ssh import SshProvider
        from bastion.service.repair.uninstall import way_to

        root = self._root()
        way = way_to(host, self._pools(), root.machines.values(), by=pool)
        provider = SshProvider(self.root, way, bucket=root.bucket or "none", build=build_digest())
        return provider.remove(host)

    def _root(self) -> Root:
        from bastion.records.root import RootWriter

        held = RootWriter(self.store, self.clock).read()
        assert held is not None
        return held.root

    def _pools(self) -> Mapping[str, Pool]:
        from bastion.service.config.admin_files import read_config

        return read_config(self.store).pools

    def _provider(self, pool: Pool, zones: Iterable[str]) -> Provider:
        """Return the provider of `pool`; it also looks in `zones`."""
        from bastion.bucket_name import bucket_name_from_url
        from bastion.provider.open import open_provider

        bucket = self._root().bucket or bucket_name_from_url(self.root)
        nowhere = Path("/nonexistent")  # only local pools have a folder, and they are not opened
        more = sorted({zone for zone in zones if zone} - {*pool.zones})
        everywhere = replace(pool, zones=(*pool.zones, *more))
        return open_provider(everywhere, root_url=self.root, bucket=bucket, machines_dir=nowhere)

    def exposed_webhooks(self) -> tuple[str, ...]:
        """
        Return the names of webhooks whose URL is in the configuration, which every user can read.

        Raises:
            StoreError: The bucket is out of reach.
        """
        from bastion.service.config.admin_files import read_config

        try:
            webhooks = read_config(self.store).notifications.webhooks
        except StoreError:
            raise
        except BastionError:
            return ()
        return tuple(sorted(name for name, webhook in webhooks.items() if webhook.url))

    def setup_commands(self, people: People, quota: Quota) -> tuple[str, ...]:
        """
        Return the gcloud, aws or az commands that give `people` their rights in this bucket.

        Raises:
            SpecError: The root is a folder, which needs no setup, or its cloud has no such
                identity.
        """
        from bastion.service.access import azure, gcs, s3
        from bastion.service.access.identity import check_people

        kind, place = self._place()
        check_people(kind, people)
        cloud = {"gs": gcs, "s3": s3, "az": azure}[kind]
        return tuple(cloud.commands(place, granted(people, quota)))

    def setup(self, people: People, quota: Quota) -> Iterable[str]:
        """
        Apply the settings of this bucket and the rights of `people`; report each change in a line.

        Raises:
            SpecError: The root is a folder, its cloud has no such identity, or there are more
                rights than a policy holds.
            StoreError: The cloud refused or is out of reach; earlier changes remain.
        """
        from bastion.service.access import azure, gcs, s3
        from bastion.service.access.identity import check_people

        kind, place = self._place()
        check_people(kind, people)
        wanted = granted(people, quota)
        if kind == "az":
            return azure.apply(place, wanted)
        if kind == "gs":
            return gcs.open_access(place).apply(wanted)
        return s3.apply(place, wanted, client=s3.open_client(place))

    def _place(self) -> tuple[str, Place]:
        from bastion.service.access.place import place_of

        scheme = self.root.partition(":")[0]
        kind = scheme if scheme in ("s3", "az") else "gs"
        return kind, place_of(self.root, kind=kind)


def granted(people: People, quota: Quota) -> tuple[Grant, ...]:
    """Return every right that `people` need under `quota`."""
    from bastion.service.access.grants import grants

    return grants(people, members(quota, people.users))


def members(quota: Quota, known: Iterable[str]) -> Mapping[str, list[str]]:
    """Return the users of each project: those named, and `known` users that match a pattern."""
    known = set(known)
    return {
        project.name: sorted(
            {*names(project), *(user for user in known if project.members.has(user))}
        )
        for project in quota.projects.values()
    }


def names(project: Project) -> list[str]:
    """Return the members that the quota file names, without patterns."""
    return [word for word in project.members.written if re.fullmatch(r"[\w.@-]+", word)]
