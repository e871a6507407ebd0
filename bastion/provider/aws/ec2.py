"""
Instances of EC2.

* A batch is one `RunInstances` whose minimum count equals its maximum: all or none. Its client
  token is derived from the batch, so a request whose answer was lost is simply repeated.
* Before that, `create` queries which instances of the commit exist. If one carries the token, the
  whole batch exists: instances that are not listed yet will be.
* An instance whose tags were changed manually is found by its id, if this provider has listed it
  before. It is reported, and neither taken for gone nor left to run forever.
* An instance that shuts down terminates itself and deletes its disk. EC2 lists terminated instances
  for an hour, which is where `gone` comes from.
* Each call is sent once and has a deadline; the service retries.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bastion.errors import (
    NoCapacityError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.aws.batch import Batch, batch_of, token_of
from bastion.provider.aws.calls import call
from bastion.provider.aws.client import account_in_use, client
from bastion.provider.aws.ec2_pool import image_of, region_of
from bastion.provider.aws.ec2_request import (
    Image,
    image_from,
    image_query,
    own_filters,
    run_request,
    subnet_query,
)
from bastion.provider.aws.instances import Instance, instance_of, listed, without_tags
from bastion.provider.aws.verdicts import MADE_BEFORE
from bastion.provider.each_place import in_each
from bastion.provider.port import Listed

_PAGE = 500
_MOST_PAGES = 1000

Script = Callable[[Pool, str], str]
"""Writes a pool's start-up script, given a shell command that prints a machine's name."""


_WOULD_DO = ("DryRunOperation",)
"""How EC2 says that it would carry out a call. Source: RunInstances, `DryRun`."""


_FORGOTTEN = ("InvalidInstanceID.NotFound",)
"""EC2 forgets an instance an hour after it was terminated."""


class Ec2Provider:
    """
    The instances of one pool.

    Args:
        pool: Its zones are Amazon's zones. New machines are created in the region of the first
            zone. Machines in the regions of the others, such as after a move, are listed and
            deleted.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        connect: Creates an EC2 client for a region; called once per region, at its first use.
        identify: Returns the number of the account in use, or nothing, from a region's server.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        bucket: str,
        script: Script,
        connect: Callable[[str], Any] | None = None,
        identify: Callable[[str], str] = account_in_use,
    ) -> None:
        self._pool = pool
        self._bucket = bucket
        self._script = script
        self._connect = connect or client
        self._identify = identify
        self._region = region_of(pool.zones[0])
        self._regions = tuple(dict.fromkeys(map(region_of, pool.zones)))
        self._opening = threading.Lock()
        self._opened: dict[str, Any] = {}
        self._shown: dict[str, tuple[Instance, ...]] = {}
        """Machine -> those of its instances that the last list had and that had not ended."""

    @property
    def vouches(self) -> bool:
        """See the port: EC2 knows which instances exist."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port; several instances with one name, such as manual copies, are reported."""
        found: dict[str, list[Instance]] = defaultdict(list)
        for instance in self._everywhere():
            found[instance.machine].append(instance)
        made = {name: listed(name, self._pool.name, each) for name, each in found.items()}
        for name in self._shown.keys() - found.keys():
            before = self._shown[name]
            if again := self._again(before):
                made[name] = listed(name, self._pool.name, again)
                if any(each.tags != before[0].tags for each in again):
                    made[name] = without_tags(made[name], again, before[0].tags)
                found[name] = [replace(each, tags=before[0].tags) for each in again]
        self._shown = {
            name: tuple(each) for name, each in found.items() if made[name].state != "gone"
        }
        return tuple(made[name] for name in sorted(made))

    def _again(self, before: Sequence[Instance]) -> tuple[Instance, ...]:
        """Return what EC2 now says of instances that a list had, without those it has forgotten."""
        found: tuple[Instance, ...] = ()
        for each in before:
            answer = self._call(
                "describe_instances",
                f"look at {each.id}",
                region=region_of(each.zone),
                but=_FORGOTTEN,
                InstanceIds=[each.id],
            )
            found += tuple(_instances_in(answer))
        return found

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a stopped instance is started again."""
        batch, token = batch_of(machines), token_of(self._bucket, machines)
        zone = machines[0].zone
        if region_of(zone) != self._region:
            raise NoCapacityError(f"pool {pool.name} has no zone {zone!r} any more")
        shown = tuple(self._instances(self._region, seq=batch.seq))
        stopped = [
            each.id for each in shown if each.machine in batch.names and each.status == "stopped"
        ]
        if stopped:
            self._call("start_instances", f"start {machines[0].name}", InstanceIds=stopped)
        if not any(each.machine in batch.names or each.token == token for each in shown):
            self._run(batch, token, zone, pool)

    def delete(self, name: str) -> None:
        """See the port; the list shows when it is gone."""
        parsed = parse_machine(name, self._pool.name)
        if parsed is None:
            return
        in_each(self._regions, partial(self._delete_in, name, parsed.seq))

    def _delete_in(self, name: str, seq: int, region: str) -> None:
        tagged = self._instances(region, seq=seq)
        found = tuple(each for each in tagged if each.machine == name)
        if not found:
            before = self._shown.get(name, ())
            found = self._again([each for each in before if region_of(each.zone) == region])
        ids = [each.id for each in found if each.state not in ("deleting", "gone")]
        if ids:
            self._call("terminate_instances", f"delete {name}", region=region, InstanceIds=ids)

    def account(self) -> str:
        """See `TellsAccount`: queried only if a list shows no instance, which would name it."""
        number = self._identify(self._region)
        return f"account {number}" if number else ""

    def lacking(self) -> tuple[str, ...]:
        """See `TellsRights`: EC2 reports what it would answer, with `DryRun`."""
        machine = Machine(name=f"{self._pool.name}-0-0", pool=self._pool.name)
        zone, batch = self._pool.zones[0], batch_of((machine,))
        asked = self._request(batch, token_of(self._bucket, (machine,)), zone, self._pool)
        found = [self._would("run_instances", "create", **asked)]
        ids = [each.id for each in self._everywhere() if each.state not in ("deleting", "gone")]
        if ids:
            found.append(self._would("terminate_instances", "delete", InstanceIds=ids[:1]))
        return tuple(filter(None, found))

    def _would(self, method: str, what: str, **given: Any) -> str:
        """Return why a call would be refused for missing permissions, or nothing."""
        try:
            self._call(method, what, but=_WOULD_DO, DryRun=True, **given)
        except ProviderRefusedError as error:
            return error.in_a_line
        return ""

    def _run(self, batch: Batch, token: str, zone: str, pool: Pool) -> None:
        request = self._request(batch, token, zone, pool)
        what = f"create {len(batch.indices)} {request['InstanceType']} in {zone}"
        self._call("run_instances", what, but=MADE_BEFORE, **request)

    def _request(self, batch: Batch, token: str, zone: str, pool: Pool) -> dict[str, Any]:
        return run_request(
            pool,
            batch,
            bucket=self._bucket,
            token=token,
            zone=zone,
            image=self._image(pool),
            subnet=self._subnet(pool, zone, hosts=len(batch.indices)),
            script=self._script(pool, batch.name_command),
        )

    def _image(self, pool: Pool) -> Image:
        """Return the image of the pool; the newest if several have its name."""
        wanted = image_of(pool)
        query = image_query(pool)
        pages = self._pages("describe_images", f"find image {wanted}", **query)
        images = [image for page in pages for image in page.get("Images", ())]
        if not images:
            raise ProviderRefusedError(f"image: EC2 has no {wanted!r} in {self._region}")
        newest = max(images, key=lambda image: (image.get("CreationDate", ""), image["ImageId"]))
        return image_from(newest)

    def _subnet(self, pool: Pool, zone: str, *, hosts: int) -> str:
        """Return the subnet with the most free addresses; empty for the zone's default."""
        query = subnet_query(pool, zone)
        if query is None:
            return ""
        pages = self._pages("describe_subnets", f"find the subnet of {zone}", **query)
        subnets = [subnet for page in pages for subnet in page.get("Subnets", ())]
        if not subnets:
            network = pool.network or "the default VPC"
            raise ProviderRefusedError(f"network: {network} has no subnet in {zone}")
        free: dict[str, int] = {
            each["SubnetId"]: each.get("AvailableIpAddressCount", 0) for each in subnets
        }
        best = min(free, key=lambda subnet: (-free[subnet], subnet))
        if free[best] < hosts:
            raise NoCapacityError(
                f"{zone}: subnet {best} has {free[best]} free addresses; {hosts} are needed"
            )
        return best

    def _everywhere(self) -> Iterator[Instance]:
        """Yield every instance of the pool, in all regions."""
        for region in self._regions:
            yield from self._instances(region)

    def _instances(self, region: str, *, seq: int | None = None) -> Iterator[Instance]:
        """Yield our instances of the pool in a region, or those of one commit."""
        pages = self._pages(
            "describe_instances",
            f"list pool {self._pool.name}",
            region=region,
            Filters=own_filters(self._bucket, self._pool.name, seq=seq),
            MaxResults=_PAGE,
        )
        for page in pages:
            for instance in _instances_in(page):
                if parse_machine(instance.machine, self._pool.name) is not None:
                    yield instance

    def _pages(
        self, method: str, what: str, *, region: str = "", **given: Any
    ) -> Iterator[Mapping[str, Any]]:
        for _ in range(_MOST_PAGES):
            page = self._call(method, what, region=region, **given)
            yield page
            token = page.get("NextToken")
            if not token:
                return
            given["NextToken"] = token
        raise ProviderUnavailableError(f"{what}: more than {_MOST_PAGES} pages")

    def _call(
        self, method: str, what: str, *, region: str = "", but: Iterable[str] = (), **given: Any
    ) -> Mapping[str, Any]:
        """
        Make one call in `region`, or where new machines are created.

        Errors whose code is in `but` count as answers.

        Raises:
            ProviderError: Depends on EC2's answer; see `verdict`.
        """
        # This also checks whether botocore is installed.
        ec2 = self._open(region or self._region)
        answer: Mapping[str, Any] = call(ec2, method, what, but=but, **given)
        return answer

    def _open(self, region: str) -> Any:
        with self._opening:
            if region not in self._opened:
                self._opened[region] = self._connect(region)
            return self._opened[region]


def _instances_in(answer: Mapping[str, Any]) -> Iterator[Instance]:
    for reservation in answer.get("Reservations", ()):
        for each in reservation.get("Instances", ()):
            yield instance_of(each, reservation.get("OwnerId", ""))
