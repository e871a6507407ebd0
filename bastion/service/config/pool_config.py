"""`config/bastion.toml`: pools and where their machines come from."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Pool, Terms
from bastion.provider.open import PROVIDERS, problems_of
from bastion.records.codec import problems
from bastion.records.secrets import SecretTables
from bastion.records.webhooks import Notifications, WebhookTables
from bastion.secret_rules import SecretRules
from bastion.spec import Resources, check_name, seconds_of
from bastion.spec.quantity import bytes_of
from bastion.spec.where import CONTAINERS, YES
from bastion.value import value

MIN_PERMIT_S = 180.0
"""Least time that jobs run on without the bucket: three heartbeats may be late."""
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%-]{0,250}", re.ASCII)
"""What `ssh` takes for a host and cannot take for an option."""


@value
class Config:
    """What the admins configured."""

    pools: Mapping[str, Pool]
    secrets: SecretRules = SecretRules()
    notifications: Notifications = Notifications()


class _HealthTable(BaseModel):
    """The table `health` of a pool."""

    model_config = ConfigDict(extra="forbid")

    devices: bool | None = None
    burn: str = ""


class _PoolTable(BaseModel):
    """One `[pools.NAME]` table, as it is written."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    provider: str
    resources: dict[str, int | str] = Field(default_factory=dict)
    instance_type: str = ""
    count: Annotated[int, Field(ge=0)] | None = None
    min_machines: Annotated[int, Field(ge=0)] = 0
    max_machines: Annotated[int, Field(ge=0)] | None = None
    tier: Annotated[int, Field(ge=0)] = 0
    zones: list[str] = Field(default_factory=lambda: [""])
    hosts: list[str] = Field(default_factory=list)
    permit: float | str = 600.0
    cluster: str = ""
    shard: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    containers: bool = False
    idle_timeout: float | str = 600.0
    boot: float | str = 120.0
    patience: float | str = 900.0
    price: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    keep_work: float | str = 7 * 86400.0
    run_as: str = ""
    terms: Terms = "on_demand"
    reservation: str = ""
    image: str = ""
    disk: str = ""
    network: str = ""
    tags: list[str] = Field(default_factory=list)
    identity: str = ""
    setup: list[str] = Field(default_factory=list)
    health: _HealthTable = Field(default_factory=_HealthTable)
    orphan_timeout: float | str = 3600.0
    options: dict[str, str] = Field(default_factory=dict)

    @field_validator("idle_timeout", "boot", "patience", "keep_work", "permit", "orphan_timeout")
    @classmethod
    def _seconds(cls, written: float | str) -> float:
        return seconds_of("duration", written)

    @field_validator("zones")
    @classmethod
    def _some_zone(cls, zones: list[str]) -> list[str]:
        if not zones:
            raise ValueError("none given; leave it out where there is only one")
        return zones


class _File(WebhookTables, SecretTables):
    model_config = ConfigDict(extra="forbid")

    pools: dict[str, _PoolTable] = Field(default_factory=dict)


def parse_config(text: str) -> Config:
    """
    The configuration that `text` holds.

    Raises:
        SpecError: Every problem in it, each with its path.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise SpecError(f"config/bastion.toml: not TOML: {error}") from error
    try:
        file = _File.model_validate(tables)
    except ValidationError as error:
        raise SpecError(*(f"config/bastion.toml: {line}" for line in problems(error))) from error
    if not tables:
        raise SpecError(
            "config/bastion.toml: holds no table; must hold at least one pool",
            hint="to have no machines, set max_machines = 0 in every pool",
        )
    found: list[str] = []
    pools: dict[str, Pool] = {}
    for name, table in file.pools.items():
        try:
            pools[name] = _pool(name, table)
        except SpecError as error:
            found += [f"config/bastion.toml: pools.{name}.{text}" for text in error.problems]
    secrets = SecretRules()
    try:
        secrets = file.rules_made()
    except SpecError as error:
        found += [f"config/bastion.toml: {text}" for text in error.problems]
    notifications = Notifications()
    try:
        notifications = file.notifications_made()
    except SpecError as error:
        found += [f"config/bastion.toml: {text}" for text in error.problems]
    found += _shared_hosts(file.pools)
    if found:
        raise SpecError(*found)
    return Config(pools=pools, secrets=secrets, notifications=notifications)


def _pool(name: str, table: _PoolTable) -> Pool:
    wrong = check_name("name", name)
    if table.provider not in PROVIDERS:
        nearest = difflib.get_close_matches(table.provider, PROVIDERS, n=1)
        meant = f"; did you mean {nearest[0]}?" if nearest else ""
        known = ", ".join(PROVIDERS)
        wrong.append(f"provider: {table.provider!r} is unknown; must be one of {known}{meant}")
    if table.count is not None and (table.max_machines is not None or table.min_machines):
        wrong.append("count: stands for min_machines and max_machines; give it or them")
    wrong += _host_problems(table)
    if table.count is None and table.max_machines is None and not table.hosts:
        wrong.append("max_machines: missing; how many machines may exist (or count, if always)")
    if table.max_machines is not None and table.min_machines > table.max_machines:
        most = table.max_machines
        wrong.append(
            f"min_machines: {table.min_machines} is more than max_machines, which is {most}"
        )
    if bool(table.resources) == bool(table.instance_type):
        wrong.append("resources: give either resources or instance_type")
    if wrong:
        raise SpecError(*wrong)
    allowed = table.count if table.count is not None else table.max_machines
    if table.hosts:
        allowed = len(table.hosts) if allowed is None else min(allowed, len(table.hosts))
    instance = lookup(table.instance_type) if table.instance_type else None
    hosts = instance.hosts if instance is not None else 1
    if hosts > 1 and (table.count or table.min_machines):
        raise SpecError(
            f"min_machines: a {table.instance_type} is {hosts} machines that are made together, and"
            " only when a job needs them; leave it out"
        )
    resources = instance.host if instance is not None else Resources(**table.resources).amounts
    named = {"cluster": table.cluster, "shard": table.shard}
    named[CONTAINERS] = YES if table.containers else ""
    pool = Pool(
        name=name,
        provider=table.provider,
        resources=resources,
        hosts=hosts,
        max_machines=allowed or 0,
        min_machines=table.count if table.count is not None else table.min_machines,
        tier=table.tier,
        zones=tuple(table.hosts or table.zones),
        machines_per_zone=1 if table.hosts else 0,
        permit_s=float(table.permit) if table.hosts else 0.0,
        labels={**table.labels, **{key: text for key, text in named.items() if text}},
        idle_timeout_s=float(table.idle_timeout),
        boot_s=float(table.boot),
        patience_s=float(table.patience),
        price_per_hour=table.price,
        keep_work_s=float(table.keep_work),
        run_as=table.run_as,
        instance_type=table.instance_type,
        terms=table.terms,
        reservation=table.reservation,
        image=table.image,
        disk_gib=-(-bytes_of("disk", table.disk) // 2**30) if table.disk else 0,
        network=table.network,
        tags=tuple(table.tags),
        identity=table.identity,
        setup=tuple(table.setup),
        watches_devices=_watches_devices(table),
        burn=table.health.burn,
        orphan_timeout_s=float(table.orphan_timeout),
        options=table.options,
    )
    if problems := problems_of(pool):
        raise SpecError(*problems)
    return pool


def _watches_devices(table: _PoolTable) -> bool:
    """Machines of clouds are what their provider says; other pools may declare what they like."""
    asked = table.health.devices
    return table.provider in ("gce", "gcp_tpu", "ec2") if asked is None else asked


def _host_problems(table: _PoolTable) -> list[str]:
    """What is wrong with the hosts of a pool, or with naming some."""
    if table.provider != "ssh":
        return ["hosts: only a pool of provider ssh has hosts"] if table.hosts else []
    if not table.hosts:
        return ["hosts: missing; name the hosts of this pool as OpenSSH knows them"]
    wrong = [
        f"hosts: {host!r} is not a name that OpenSSH takes, such as gpu1 or root@gpu1"
        for host in table.hosts
        if not _HOST.fullmatch(host)
    ]
    wrong += [
        f"hosts: {host!r} is named twice" for host, n in Counter(table.hosts).items() if n > 1
    ]
    if table.zones != [""]:
        wrong.append("zones: each host is a zone; leave it out")
    if (table.count or table.min_machines) > len(table.hosts):
        wrong.append(f"count: a host holds one machine, and there are {len(table.hosts)} hosts")
    if float(table.permit) < MIN_PERMIT_S:
        wrong.append(f"permit: {table.permit:g} s is less than {MIN_PERMIT_S:g} s")
    return wrong


def _shared_hosts(tables: Mapping[str, _PoolTable]) -> list[str]:
    """Hosts that several pools name: a host holds one machine."""
    pools: dict[str, list[str]] = defaultdict(list)
    for name, table in tables.items():
        for host in dict.fromkeys(table.hosts):
            pools[host].append(name)
    return [
        f"config/bastion.toml: pools.{names[-1]}.hosts: {host!r} is a host of pool {names[0]} too"
        for host, names in pools.items()
        if len(names) > 1
    ]
