"""
Instances of EC2.

* A batch is one `RunInstances` whose least count is its most: all or none. Its client token is
  derived from the batch, so a request whose answer was lost is simply made again.
* Before that, `create` asks which instances of the commit exist. Where one carries the token, the
  whole batch exists: what is not listed yet will be.
* An instance that shuts down ends itself, and its disk with it. EC2 lists what ended for an hour,
  which is where `gone` comes from.
* Each call is sent once and has a deadline; the service tries again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bastion.errors import (
    NoCapacityError,
    ProviderError,
    ProviderRefusedError,
    ProviderUnavailableError,
)
from bastion.machine import Machine, Pool
from bastion.machine_name import parse_machine
from bastion.provider.aws.batch import Batch, batch_of, machine_of, token_of
from bastion.provider.aws.calls import call
from bastion.provider.aws.ec2_pool import image_of, region_of
from bastion.provider.aws.ec2_request import (
    Image,
    image_query,
    own_filters,
    run_request,
    subnet_query,
)
from bastion.provider.aws.verdicts import MADE_BEFORE
from bastion.provider.port import Listed, State
from bastion.value import value

CONNECT_S = 5.0
ANSWER_S = 60.0
"""Longest silence of EC2's within one call; a large batch is answered within half a minute."""
_PAGE = 500
_MOST_PAGES = 1000

# Source: botocore's description of `InstanceStateName`.
_STATES: Mapping[str, State] = {
    "pending": "creating",
    "running": "running",
    "stopping": "running",  # it cannot be started again before it has stopped
    "stopped": "stopped",
    "shutting-down": "deleting",
    "terminated": "gone",
}
_LIVELIEST: tuple[State, ...] = ("running", "creating", "stopped", "deleting", "gone")

Script = Callable[[Pool, str], str]
"""The start-up script of a pool's machines, from a shell command that prints a machine's name."""


@value
class _Instance:
    id: str
    machine: str
    token: str
    status: str
    """As EC2 calls its state."""
    zone: str
    text: str
    created_at: str

    @property
    def state(self) -> State:
        return _STATES.get(self.status, "creating")


class Ec2Provider:
    """
    The instances of one pool.

    Args:
        pool: Its zones are zones of one of Amazon's regions.
        bucket: The bucket's own name.
        script: Writes the start-up script of a machine.
        connect: Makes a client of EC2 in a region; called once, on the thread of the first call.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        bucket: str,
        script: Script,
        connect: Callable[[str], Any] | None = None,
    ) -> None:
        self._pool = pool
        self._bucket = bucket
        self._script = script
        self._connect = connect or client
        self._region = region_of(pool.zones[0])
        self._opening = threading.Lock()
        self._opened: Any = None

    @property
    def vouches(self) -> bool:
        """See the port: EC2 knows which instances there are."""
        return True

    def list(self) -> tuple[Listed, ...]:
        """See the port; several instances of one name, as copies made by hand, are told."""
        found: dict[str, list[_Instance]] = defaultdict(list)
        for instance in self._instances():
            found[instance.machine].append(instance)
        return tuple(_listed(name, self._pool.name, found[name]) for name in sorted(found))

    def create(self, machines: Sequence[Machine], pool: Pool) -> None:
        """See the port; a stopped instance is started again."""
        batch, token = batch_of(machines), token_of(self._bucket, machines)
        shown = tuple(self._instances(seq=batch.seq))
        stopped = [
            each.id for each in shown if each.machine in batch.names and each.status == "stopped"
        ]
        if stopped:
            self._call("start_instances", f"start {machines[0].name}", InstanceIds=stopped)
        if not any(each.machine in batch.names or each.token == token for each in shown):
            self._run(batch, token, machines[0].zone, pool)

    def delete(self, name: str) -> None:
        """See the port; the list tells when it is gone."""
        parsed = parse_machine(name, self._pool.name)
        if parsed is None:
            return
        ids = [
            each.id
            for each in self._instances(seq=parsed.seq)
            if each.machine == name and each.state not in ("deleting", "gone")
        ]
        if ids:
            self._call("terminate_instances", f"delete {name}", InstanceIds=ids)

    def _run(self, batch: Batch, token: str, zone: str, pool: Pool) -> None:
        if region_of(zone) != self._region:
            raise NoCapacityError(f"pool {pool.name} has no zone {zone!r} any more")
        request = run_request(
            pool,
            batch,
            bucket=self._bucket,
            token=token,
            zone=zone,
            image=self._image(pool),
            subnet=self._subnet(pool, zone, hosts=len(batch.indices)),
            script=self._script(pool, batch.name_command),
        )
        what = f"create {len(batch.indices)} {request['InstanceType']} in {zone}"
        self._call("run_instances", what, but=MADE_BEFORE, **request)

    def _image(self, pool: Pool) -> Image:
        """The image of the pool; the newest where several have its name."""
        wanted = image_of(pool)
        query = image_query(pool)
        pages = self._pages("describe_images", f"find image {wanted}", **query)
        images = [image for page in pages for image in page.get("Images", ())]
        if not images:
            raise ProviderRefusedError(f"image: EC2 has no {wanted!r} in {self._region}")
        newest = max(images, key=lambda image: (image.get("CreationDate", ""), image["ImageId"]))
        return Image(id=newest["ImageId"], root_device=newest.get("RootDeviceName") or "/dev/sda1")

    def _subnet(self, pool: Pool, zone: str, *, hosts: int) -> str:
        """The subnet with most free addresses; empty for the zone's default."""
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

    def _instances(self, *, seq: int | None = None) -> Iterator[_Instance]:
        """Every instance of the pool, or of one commit; what is not ours is left out."""
        pages = self._pages(
            "describe_instances",
            f"list pool {self._pool.name}",
            Filters=own_filters(self._bucket, self._pool.name, seq=seq),
            MaxResults=_PAGE,
        )
        for page in pages:
            for reservation in page.get("Reservations", ()):
                for each in reservation.get("Instances", ()):
                    instance = _instance(each)
                    if parse_machine(instance.machine, self._pool.name) is not None:
                        yield instance

    def _pages(self, method: str, what: str, **given: Any) -> Iterator[Mapping[str, Any]]:
        for _ in range(_MOST_PAGES):
            page = self._call(method, what, **given)
            yield page
            token = page.get("NextToken")
            if not token:
                return
            given["NextToken"] = token
        raise ProviderUnavailableError(f"{what}: more than {_MOST_PAGES} pages")

    def _call(
        self, method: str, what: str, *, but: Iterable[str] = (), **given: Any
    ) -> Mapping[str, Any]:
        """
        Make one call; errors whose code is in `but` are answers too.

        Raises:
            ProviderError: By what EC2 answers; see `verdict`.
        """
        ec2 = self._open()  # this also finds out whether botocore is installed
        answer: Mapping[str, Any] = call(lambda: getattr(ec2, method)(**given), what, but=but)
        return answer

    def _open(self) -> Any:
        with self._opening:
            if self._opened is None:
                self._opened = self._connect(self._region)
            return self._opened


def client(region: str) -> Any:
    """
    Return a client of EC2 that sends each call once, with the credentials of this process.

    Raises:
        ProviderError: boto3 is not installed, or its settings are wrong.
    """
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise ProviderRefusedError(
            f"a pool of provider ec2 needs boto3: {error}",
            hint="run: pip install 'bastion-orchestrator[aws]'",
        ) from error
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    try:
        return boto3.session.Session().client("ec2", region_name=region, config=config)
    except (BotoCoreError, ValueError) as error:
        raise _unopened(error) from error


def _unopened(error: Exception) -> ProviderError:
    return ProviderRefusedError(f"no client of EC2: {error}", hint="check ~/.aws/config")


def _instance(said: Mapping[str, Any]) -> _Instance:
    tags = {tag["Key"]: tag["Value"] for tag in said.get("Tags", ())}
    made_at = said.get("LaunchTime")
    reason = said.get("StateReason", {}).get("Message", "") or said.get("StateTransitionReason", "")
    return _Instance(
        id=said["InstanceId"],
        machine=machine_of(tags, said.get("AmiLaunchIndex", -1)),
        token=said.get("ClientToken", ""),
        status=said.get("State", {}).get("Name", ""),
        zone=said.get("Placement", {}).get("AvailabilityZone", ""),
        text=reason,
        created_at=made_at.isoformat() if made_at is not None else "",
    )


def _listed(name: str, pool: str, instances: Sequence[_Instance]) -> Listed:
    """One machine; where several instances have its name, it is as lively as the liveliest."""
    first = min(
        instances, key=lambda each: (_LIVELIEST.index(each.state), each.created_at, each.id)
    )
    alive = sorted(each.id for each in instances if each.state not in ("deleting", "gone"))
    text = first.text
    if len(alive) > 1:
        text = f"{len(alive)} instances carry its tags: {', '.join(alive)}"
    return Listed(
        name=name,
        pool=pool,
        state=first.state,
        zone=first.zone,
        text=text[:500],
        created_at=first.created_at,
    )
