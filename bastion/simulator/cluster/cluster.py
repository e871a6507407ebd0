"""
`Cluster`: the machines of a simulation, pool by pool, and how they change while it runs.

The machines of a pool are identical. `speed` scales how fast they do work; pools of one resource
type can differ in it. The scheduler gets ordinary `Machine` and `Pool` records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from bastion.machine import Machine, MachinePhase, Pool
from bastion.simulator.workload.job import TraceJob
from bastion.value import value
from quota import Amounts


@value
class Shape:
    """The machines of one pool."""

    count: int
    """How many exist at the start."""
    devices: int
    """Of one machine."""
    type: str = "gpu"
    name: str = ""
    """Of the pool; empty for a name derived from its type and position."""
    speed: float = 1.0
    """Work per second, as a multiple of a device of speed 1."""
    most: int = 0
    """How many machines can exist; below `count`: the pool creates none."""
    boot_s: float = 120.0
    """How long it takes to create a machine."""
    idle_timeout_s: float = 600.0
    """Seconds after which a created machine that is idle is deleted."""
    tier: int = 0
    cpu: int = 0
    """Of one machine; 0: not counted."""
    names: tuple[str, ...] = ()
    """
    Of the machines that exist at the start; the others are named after the pool, with a number.
    """

    @property
    def resources(self) -> Amounts:
        """What one machine has."""
        return Amounts({self.type: self.devices, "cpu": self.cpu})


@value
class Change:
    """Machines that are added or removed while it runs."""

    at_s: float
    """Seconds from the first submission."""
    pool: str
    count: int
    """Machines to add; if negative, to remove: those with the fewest jobs first."""


@value
class Cluster:
    """Everything that jobs may run on."""

    shapes: Sequence[Shape]
    changes: Sequence[Change] = ()
    named: Mapping[str, Shape] = field(init=False, repr=False, compare=False)
    """The shapes, by the name of their pool."""

    def __post_init__(self) -> None:
        named: dict[str, Shape] = {}
        for index, shape in enumerate(self.shapes):
            named[shape.name or f"{shape.type.replace('_', '-')}-{index}"] = shape
        object.__setattr__(self, "named", named)

    def grown(self, more: Mapping[str, int]) -> Cluster:
        """
        Return it with more machines, by pool.

        In a pool whose machines all exist at the start, the additional ones do too; in other pools,
        that many more can be created.
        """
        shapes = [
            replace(
                shape,
                name=name,
                count=shape.count + (more.get(name, 0) if shape.count >= shape.most else 0),
                most=max(shape.count, shape.most) + more.get(name, 0),
            )
            for name, shape in self.named.items()
        ]
        return replace(self, shapes=tuple(shapes))

    @property
    def shrinks(self) -> bool:
        """Whether machines are removed while it runs: a job may then no longer fit."""
        return any(change.count < 0 for change in self.changes)

    @property
    def types(self) -> tuple[str, ...]:
        """The resource types of its devices, in the order of the shapes."""
        return tuple(dict.fromkeys(shape.type for shape in self.shapes))

    @property
    def totals(self) -> Amounts:
        """The total of all machines that can ever exist."""
        return Amounts.sum(
            max(shape.count, shape.most) * shape.resources.only(self.types) for shape in self.shapes
        )

    @property
    def device_count(self) -> int:
        """Devices that exist at the start."""
        return sum(shape.count * shape.devices for shape in self.shapes)

    def largest(self, kind: str) -> int:
        """The largest number of devices of a type on one machine."""
        return max((shape.devices for shape in self.shapes if shape.type == kind), default=0)

    def fitted(self, job: TraceJob, *, anywhere: bool = False) -> TraceJob | str:
        """
        Return `job` with its type and its number of replicas, or why it can never run.

        Without a number of replicas, it gets the fewest equal ones that fit on machines. If devices
        count `anywhere`, it gets one for each device if it does not fit otherwise.
        """
        kind = job.type or self.types[0]
        largest = self.largest(kind)
        if not largest:
            return f"type {kind} is not in the cluster; allowed: {', '.join(self.types)}"
        if job.devices > self.totals[kind]:
            return f"asks for {job.devices} {kind}; the cluster has {self.totals[kind]}"
        replicas = job.replicas or _fewest(job.devices, largest)
        problem = self._problem(job.devices, replicas, kind)
        if problem and not anywhere:
            return problem
        return job._replace(type=kind, replicas=job.devices if problem else replicas)

    def _problem(self, devices: int, replicas: int, kind: str) -> str:
        """Return why that many equal replicas do not fit at the same time; empty if they do."""
        largest = self.largest(kind)
        each = devices // replicas
        if each > largest:
            return f"asks for {each} {kind} a replica; the largest machine has {largest}"
        places = sum(
            max(shape.count, shape.most) * (shape.devices // each)
            for shape in self.shapes
            if shape.type == kind
        )
        if places < replicas:
            return f"asks for {replicas} x {each} {kind}; {places} such replicas fit at once"
        return ""

    def machines(self) -> dict[str, Machine]:
        """The machines that exist at the start, by name."""
        return {
            machine.name: machine
            for name, shape in self.named.items()
            for machine in (machine_of(name, shape, number) for number in range(shape.count))
        }

    def pools(self) -> dict[str, Pool]:
        """The pools as the scheduler sees them."""
        return {
            name: Pool(
                name=name,
                provider="simulated",
                resources=shape.resources,
                max_machines=max(shape.count, shape.most),
                min_machines=shape.count,
                tier=shape.tier,
                boot_s=shape.boot_s,
                idle_timeout_s=shape.idle_timeout_s,
            )
            for name, shape in self.named.items()
        }


def machine_of(pool: str, shape: Shape, number: int) -> Machine:
    """Return a machine that is ready."""
    known = shape.names[number : number + 1]
    return Machine(
        name=known[0] if known else f"{pool}-{number:04}",
        pool=pool,
        phase=MachinePhase.READY,
        resources=shape.resources,
        tier=shape.tier,
    )


def _fewest(devices: int, largest: int) -> int:
    """Return the smallest number of equal replicas that fit on machines of `largest` devices."""
    least = -(-devices // largest)
    return next(n for n in range(least, devices + 1) if devices % n == 0)
