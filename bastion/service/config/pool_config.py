"""`config/bastion.toml`: pools and where their machines come from."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.machine import Pool
from bastion.provider.open import PROVIDERS
from bastion.records.codec import problems
from bastion.records.secrets import SecretTables
from bastion.records.webhooks import Notifications, WebhookTables
from bastion.secret_rules import SecretRules
from bastion.spec import Resources, check_name, seconds_of
from bastion.spec.where import CONTAINERS, YES
from bastion.value import value


@value
class Config:
    """What the admins configured."""

    pools: Mapping[str, Pool]
    secrets: SecretRules = SecretRules()
    notifications: Notifications = Notifications()


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
    cluster: str = ""
    shard: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    containers: bool = False
    idle_timeout: float | str = 600.0
    boot: float | str = 120.0
    keep_work: float | str = 7 * 86400.0
    run_as: str = ""
    options: dict[str, str] = Field(default_factory=dict)

    @field_validator("idle_timeout", "boot", "keep_work")
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
    if table.count is None and table.max_machines is None:
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
    return Pool(
        name=name,
        provider=table.provider,
        resources=resources,
        hosts=hosts,
        max_machines=table.count if table.count is not None else table.max_machines or 0,
        min_machines=table.count if table.count is not None else table.min_machines,
        tier=table.tier,
        zones=tuple(table.zones),
        labels={**table.labels, **{key: text for key, text in named.items() if text}},
        idle_timeout_s=float(table.idle_timeout),
        boot_s=float(table.boot),
        keep_work_s=float(table.keep_work),
        run_as=table.run_as,
        options=table.options,
    )
