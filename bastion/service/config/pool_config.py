"""`config/bastion.toml`: pools and where their machines come from."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from bastion.catalog import lookup
from bastion.errors import SpecError
from bastion.history.prices import own_price
from bastion.machine import Pool, Terms
from bastion.provider.open import CLOUDS, CLUSTERS, PROVIDERS, problems_of
from bastion.records.coding.codec import problems
from bastion.records.keys.layout import CONFIG
from bastion.records.settings.keep import Keep, KeepTable
from bastion.records.settings.secrets import SecretTables
from bastion.records.settings.webhooks import Notifications, WebhookTables
from bastion.secret_rules import SecretRules
from bastion.service.config.inventory import (
    HOST,
    SUFFIX,
    HostLine,
    chosen_hosts,
    is_inventory,
    plain_host,
    tables_of,
)
from bastion.spec import Resources, check_name, seconds_of
from bastion.spec.values.quantity import whole_gib_of
from bastion.spec.where import CONTAINERS, YES
from bastion.value import value
from quota.choice import nearest_of
from quota.lines import placed

MIN_PERMIT_S = 180.0
"""Least time that jobs continue without the bucket: three heartbeats may be late."""
MOST_SPARE = 10
"""Maximum hosts without a pool that are listed."""
MIN_IDLE_WARNING_S = 60.0
"""Devices are sampled every ten seconds: fewer than six samples say nothing about a job."""


@value
class Config:
    """What the admins configured."""

    pools: Mapping[str, Pool]
    secrets: SecretRules = SecretRules()
    notifications: Notifications = Notifications()
    keep: Keep = Keep()
    spare_hosts: tuple[str, ...] = ()
    """Hosts of inventories that belong to no pool, in words."""


_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Cost per hour, in the admin's own currency."""


def _whole_or_text(written: object) -> object:
    if isinstance(written, bool) or not isinstance(written, int | str):
        raise ValueError(f"{written!r} is not a number of units; allowed: 1, 2, 3, ...")
    return written


_Units = Annotated[int | str, BeforeValidator(_whole_or_text)]
"""Amount of a resource type, as written; it is interpreted together with its name."""


class _HealthTable(BaseModel):
    """The table `health` of a pool."""

    model_config = ConfigDict(extra="forbid")

    devices: bool | None = None
    burn: str = ""
    foreign: bool | None = None


class _PoolTable(BaseModel):
    """One `[pools.NAME]` table as written."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    provider: str
    resources: dict[str, _Units] = Field(default_factory=dict)
    instance_type: str = ""
    count: Annotated[int, Field(ge=0)] | None = None
    min_machines: Annotated[int, Field(ge=0)] = 0
    max_machines: Annotated[int, Field(ge=0)] | None = None
    tier: Annotated[int, Field(ge=0)] = 0
    zones: list[str] = Field(default_factory=lambda: [""])
    hosts: list[str] = Field(default_factory=list)
    hosts_file: str = ""
    permit: float | str = 600.0
    cluster: str = ""
    shard: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    containers: bool = False
    idle_timeout: float | str = 600.0
    boot: float | str = 120.0
    patience: float | str = 900.0
    price: _Price = 0.0
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
    idle_warning: float | str = 0.0
    on_idle: Literal["report", "stop"] = "report"
    options: dict[str, str] = Field(default_factory=dict)

    @field_validator(
        *("idle_timeout", "boot", "patience", "keep_work", "permit", "orphan_timeout"),
        "idle_warning",
        mode="before",
    )
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
    prices: dict[str, dict[Terms, _Price]] = Field(default_factory=dict)
    host_files: dict[str, str] = Field(default_factory=dict)
    keep: KeepTable = Field(default_factory=KeepTable)


def parse_config(text: str) -> Config:
    """
    Return the configuration in `text`.

    Raises:
        SpecError: It has problems; each is listed with its path.
    """
    try:
        tables: dict[str, Any] = tomllib.loads(text)
        repr(tables)  # a hexadecimal number can have more digits than Python writes
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise SpecError(f"{CONFIG}: not TOML: {error}") from error
    found: list[str] = []
    try:
        file = _File.model_validate(tables)
    except ValidationError as error:
        found = _told(error)
        # The well-formed part is also judged, so that every problem is reported together.
        try:
            file = _File.model_validate(_without(tables, error))
        except ValidationError:
            raise SpecError(*placed(CONFIG, text, found)) from error
        found += _providers_of(tables, judged=file.pools)
    if not tables:
        raise SpecError(
            f"{CONFIG}: holds no table; must hold at least one pool",
            hint="to have no machines, set max_machines = 0 in every pool",
        )
    pools: dict[str, Pool] = {}
    inventories, elsewhere = tables_of(file.host_files)
    for name, table in file.pools.items():
        try:
            if _has_bad_inventory(table, file.host_files, inventories):
                continue  # reported with its lines
            _take_hosts(table, inventories)
            pools[name] = _priced(_pool(name, table), file.prices)
        except SpecError as error:
            found += [f"pools.{name}.{problem}" for problem in error.problems]
    secrets = SecretRules()
    try:
        secrets = file.rules_made()
    except SpecError as error:
        found += error.problems
    notifications = Notifications()
    try:
        notifications = file.notifications_made()
    except SpecError as error:
        found += error.problems
    keep = Keep()
    try:
        keep = file.keep.made()
    except SpecError as error:
        found += error.problems
    found += _shared_hosts(file.pools)
    found += _unknown_types(file.prices)
    if found or elsewhere:
        raise SpecError(*elsewhere, *placed(CONFIG, text, found))
    return Config(
        pools=pools,
        secrets=secrets,
        notifications=notifications,
        keep=keep,
        spare_hosts=tuple(_spare_hosts(inventories, file.pools)),
    )


def _told(error: ValidationError) -> list[str]:
    """Return the problems in words; an unknown key with the nearest one that its table can have."""
    near = {
        f"{'.'.join(map(str, each['loc']))}: unknown field": f", nearest is {meant}"
        for each in error.errors()
        if each["type"] == "extra_forbidden" and (meant := _nearest(each["loc"]))
    }
    return [f"{line}{near.get(line, '')}" for line in problems(error)]


def _nearest(loc: tuple[int | str, ...]) -> str:
    """Return the key nearest to the unknown one at `loc`; empty if none is near."""
    table: Any = _File
    for part in loc[:-1]:
        keys = getattr(table, "model_fields", {})
        table = keys[part].annotation if part in keys else (None, *get_args(table))[-1]
    return nearest_of(str(loc[-1]), getattr(table, "model_fields", {}))


def _without(tables: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """
    Return `tables` without what `error` names: an unknown key, or the table of a bad value.

    The rest of a table without that value would have problems of its own. So would a table without
    a misspelt key: the key is judged as the nearest one.
    """
    rest = deepcopy(dict(tables))
    for each in error.errors():
        path = [str(part) for part in each["loc"]]
        path = path if each["type"] == "extra_forbidden" else path[:2]
        inner: Any = rest
        for part in path[:-1]:
            inner = inner.get(part) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and path[-1] in inner:
            dropped = inner.pop(path[-1])
            if each["type"] == "extra_forbidden" and (meant := _nearest(each["loc"])):
                inner.setdefault(meant, dropped)
    return rest


def _providers_of(tables: Mapping[str, Any], *, judged: Mapping[str, object]) -> Iterator[str]:
    """Yield problems of the providers of pools that were not `judged` because of a bad value."""
    pools = tables.get("pools")
    for name, table in pools.items() if isinstance(pools, dict) else ():
        provider = table.get("provider") if isinstance(table, dict) else None
        if isinstance(provider, str) and name not in judged:
            for problem in _provider_problems(provider):
                yield f"pools.{name}.{problem}"


def _has_bad_inventory(
    table: _PoolTable, files: Mapping[str, str], good: Mapping[str, object]
) -> bool:
    return table.hosts_file in files and table.hosts_file not in good


def _take_hosts(table: _PoolTable, inventories: Mapping[str, tuple[HostLine, ...]]) -> None:
    """
    Give a pool the hosts and labels in its inventory.

    Raises:
        SpecError: It has no such file, or cannot take hosts from it.
    """
    name = table.hosts_file
    if not name:
        return
    if table.provider != "ssh":
        raise SpecError("hosts_file: only a pool of provider ssh has hosts")
    if table.hosts:
        raise SpecError("hosts_file: give either hosts or hosts_file")
    if not is_inventory(name):
        raise SpecError(
            f"hosts_file: {name!r} is not the name of a file beside this one that ends in {SUFFIX},"
            f" such as rack{SUFFIX}"
        )
    if name not in inventories:
        raise SpecError(f"hosts_file: there is none at config/{name}")
    chosen = chosen_hosts(name, inventories[name], _labels(table))
    table.hosts = [each.host for each in chosen]
    table.labels = dict(chosen[0].labels)


def _labels(table: _PoolTable) -> dict[str, str]:
    """Return the labels that `where` of a job can request, as the table names them."""
    named = {"cluster": table.cluster, "shard": table.shard}
    return {**table.labels, **{key: text for key, text in named.items() if text}}


def _provider_problems(provider: str) -> list[str]:
    if provider in PROVIDERS:
        return []
    near = nearest_of(provider, PROVIDERS)
    meant = f"; did you mean {near}?" if near else ""
    known = ", ".join(PROVIDERS)
    return [f"provider: {provider!r} is unknown; must be one of {known}{meant}"]


def _pool(name: str, table: _PoolTable) -> Pool:
    wrong = [*check_name("name", name), *_provider_problems(table.provider)]
    if table.count is not None and (table.max_machines is not None or table.min_machines):
        wrong.append("count: stands for min_machines and max_machines; give it or them")
    wrong += [*_host_problems(table), *_idle_problems(table)]
    if (permit_s := _permit_s(table)) is not None and permit_s < MIN_PERMIT_S:
        wrong.append(f"permit: {permit_s:g} s is less than {MIN_PERMIT_S:g} s")
    if table.count is None and table.max_machines is None and not table.hosts:
        wrong.append("max_machines: missing; set how many can exist (or count, to keep that many)")
    if table.max_machines is not None and table.min_machines > table.max_machines:
        least, most = table.min_machines, table.max_machines
        wrong.append(f"min_machines: {least} is more than max_machines, which is {most}")
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
            f"min_machines: a {table.instance_type} is {hosts} machines that are created together,"
            " and only when a job needs them; leave it out"
        )
    resources = instance.host if instance is not None else Resources(**table.resources).amounts
    containers = {CONTAINERS: YES} if table.containers else {}
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
        permit_s=permit_s or 0.0,
        labels={**_labels(table), **containers},
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
        disk_gib=whole_gib_of("disk", table.disk) if table.disk else 0,
        network=table.network,
        tags=tuple(table.tags),
        identity=table.identity,
        setup=tuple(table.setup),
        **_health_rule(table),
        orphan_timeout_s=float(table.orphan_timeout),
        **_idle_rule(table),
        options=table.options,
    )
    if problems := problems_of(pool):
        raise SpecError(*problems)
    return pool


def _unknown_types(prices: Mapping[str, object]) -> list[str]:
    """Return prices of types that no catalog has: a typo would silently have no price."""
    found = []
    for name in prices:
        try:
            lookup(name)
        except SpecError as error:
            found.append(f"prices.{name}: {error.message}; {error.hint}")
    return found


def _priced(pool: Pool, prices: Mapping[str, Mapping[Terms, float]]) -> Pool:
    """Return `pool` with the price of its instance type, if it names no price of its own."""
    if pool.price_per_hour:
        return pool
    return replace(pool, price_per_hour=own_price(prices, pool.instance_type, pool.terms))


def _watches_devices(table: _PoolTable) -> bool:
    """Whether to watch devices; by default only on clouds: other pools can declare anything."""
    asked = table.health.devices
    return table.provider in CLOUDS if asked is None else asked


def _respects_foreign(table: _PoolTable) -> bool:
    """Whether to avoid devices in use by others; by default only on your own hosts."""
    asked = table.health.foreign
    return table.provider == "ssh" if asked is None else asked


class _HealthRule(TypedDict):
    watches_devices: bool
    burn: str
    respects_foreign: bool


def _health_rule(table: _PoolTable) -> _HealthRule:
    return {
        "watches_devices": _watches_devices(table),
        "burn": table.health.burn,
        "respects_foreign": _respects_foreign(table),
    }


class _IdleRule(TypedDict):
    idle_warning_s: float
    stops_idle: bool


def _idle_rule(table: _PoolTable) -> _IdleRule:
    return {"idle_warning_s": float(table.idle_warning), "stops_idle": table.on_idle == "stop"}


def _idle_problems(table: _PoolTable) -> list[str]:
    """Return what is wrong with the rule for idle devices."""
    warning_s = float(table.idle_warning)
    if not warning_s:
        return (
            ["on_idle: needs idle_warning, the time after which"] if table.on_idle == "stop" else []
        )
    if warning_s < MIN_IDLE_WARNING_S:
        least = f"{MIN_IDLE_WARNING_S:g}"
        return [f"idle_warning: {warning_s:g} s is less than {least} s, six samples; leave it out"]
    return []


def _host_problems(table: _PoolTable) -> list[str]:
    """Return what is wrong with the hosts of a pool, or with listing them."""
    if table.provider != "ssh":
        return ["hosts: only a pool of provider ssh has hosts"] if table.hosts else []
    if not table.hosts:
        return [
            "hosts: missing; name the hosts of this pool as OpenSSH knows them, or their file in"
            " hosts_file"
        ]
    wrong = [
        f"hosts: {host!r} is not a name that OpenSSH takes, such as gpu1 or root@gpu1"
        for host in table.hosts
        if not HOST.fullmatch(host)
    ]
    first: dict[str, str] = {}
    for host in table.hosts:
        before = first.get(plain_host(host))
        if before is None:
            first[plain_host(host)] = host
        else:
            same = "" if before == host else f", as {before!r} too"
            wrong.append(f"hosts: {host!r} is named twice{same}")
    if table.zones != [""]:
        wrong.append("zones: each host is a zone; leave it out")
    if (table.count or table.min_machines) > len(table.hosts):
        wrong.append(f"count: a host holds one machine, and there are {len(table.hosts)} hosts")
    return wrong


def _permit_s(table: _PoolTable) -> float | None:
    """Return None if a provider can prove that nothing runs on a machine of the pool any longer."""
    return float(table.permit) if table.hosts or table.provider in CLUSTERS else None


def _spare_hosts(
    inventories: Mapping[str, tuple[HostLine, ...]], tables: Mapping[str, _PoolTable]
) -> Iterator[str]:
    used = {plain_host(host) for table in tables.values() for host in table.hosts}
    for name, lines in sorted(inventories.items()):
        spare = [each for each in lines if plain_host(each.host) not in used]
        for each in spare[:MOST_SPARE]:
            yield f"config/{name} line {each.number}: {each.host!r} is in no pool"
        if len(spare) > MOST_SPARE:
            yield f"config/{name}: {len(spare) - MOST_SPARE} more hosts are in no pool"


def _shared_hosts(tables: Mapping[str, _PoolTable]) -> list[str]:
    """Return hosts that several pools name: a host holds only one machine."""
    found = []
    first: dict[str, tuple[str, str]] = {}
    for name, table in tables.items():
        for host in table.hosts:
            pool, before = first.setdefault(plain_host(host), (name, host))
            if pool != name:
                same = "" if before == host else f", as {before!r}"
                found.append(f"pools.{name}.hosts: {host!r} is in pool {pool} too{same}")
    return found
