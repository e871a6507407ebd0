"""
The scenario: two projects, two machines of eight devices, 20 jobs, and all that can befall them.

`blue` owns ten devices and `red` six. Blue borrows the whole pool, red asks for its share and
reclaims; a gang of blue's lies over both machines; some jobs fail, one is cancelled while it runs
and one while it waits, one runs into its time limit, one ignores notices.
"""

from __future__ import annotations

from bastion.records import layout
from bastion.records.request import Answer, Body, JobsRequest, LaunchRequest
from bastion.spec import Job, Launch, Process, Resources
from quota.amounts import Amounts
from tests.simulation.baton import Baton
from tests.simulation.fates import Fates, Rates, Spoiling, Storm
from tests.simulation.processes import SOUND, Parts, Wish
from tests.simulation.world import World

QUOTA = """
[toml-schema]
version = "1"
[total_resources]
h100 = 16
[project_membership]
blue = ["ann", "ben"]
red = ["cat"]
[project_resources.blue]
h100 = 0.625
[project_resources.red]
h100 = 0.375
[scheduler]
min_runtime_s = 20
grace_s = 5
max_grace_s = 20
plan_after_s = 120
borrow_slice_s = 60
"""

CONFIG = """
[pools.gpu]
provider = "fake"
resources = { h100 = 8 }
max_machines = 2
idle_timeout = 60
boot = 10
"""

JOBS = 20
"""How many jobs the wishes make."""

USERS = ("ann", "ben", "cat")

HARDNESS = (0.5, 1.0, 2.0, 4.0)
"""How many times as hard as `Rates` a storm blows."""


def wishes() -> list[Wish]:
    """Everything that users will ask."""
    return [
        *[
            _launch(5.0 * n, "ann", "blue", f"first-{n}", h100=2, runs_s=40 + 10 * n)
            for n in range(6)
        ],
        _launch(20.0, "ann", "blue", "crooked", h100=1, runs_s=15, codes="3"),
        _launch(22.0, "ann", "blue", "again", h100=1, runs_s=10, codes="1 0", retries=1),
        _launch(24.0, "ann", "blue", "absent", h100=1, runs_s=10, codes="none"),
        _launch(30.0, "ben", "blue", "borrower", h100=4, runs_s=90),
        _launch(32.0, "ben", "blue", "borrower-2", h100=2, runs_s=80),
        _launch(33.0, "ben", "blue", "unwanted", h100=2, runs_s=500),
        _launch(34.0, "ben", "blue", "unwanted-2", h100=2, runs_s=500),
        _cancel(40.0, "ben", "blue", "unwanted-2"),
        _launch(50.0, "ben", "blue", "gang", h100=5, replicas=2, runs_s=30),
        _cancel(90.0, "ben", "blue", "unwanted"),
        _launch(35.0, "cat", "red", "own", h100=4, runs_s=40),
        _launch(36.0, "cat", "red", "own-2", h100=2, runs_s=60, kind="deaf"),
        _launch(60.0, "cat", "red", "endless", h100=1, runs_s=1e9, max_runtime=30.0),
        _launch(61.0, "cat", "red", "broken", h100=1, replicas=2, runs_s=25, codes="7"),
        _launch(62.0, "cat", "red", "light", h100=0, runs_s=5),
        _launch(63.0, "cat", "red", "last", h100=2, runs_s=20),
    ]


def stormy(seed: int, parts: Parts = SOUND) -> World:
    """The scenario with faults; the seed also says how hard, and how many bastions there are."""
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice(HARDNESS))
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=Storm(baton.chance, rates, spared=USERS),
        bastions=baton.chance.choice((1, 1, 2)),
        has_lease=baton.chance.random() < 0.8,
        parts=parts,
    )


def spoilt(seed: int, parts: Parts = SOUND) -> World:
    """The scenario where an empty object comes of one in twenty writes of bastions and agents."""
    baton = Baton(seed)
    storm = Storm(baton.chance, Rates(), spared=USERS)
    keys = (layout.RUNS, layout.MACHINES, layout.BELLS, layout.SPECS, layout.EVENTS)
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=Spoiling(storm, baton.chance, share=0.05, keys=keys),
        bastions=baton.chance.choice((1, 2)),
        parts=parts,
    )


def calm(
    seed: int, parts: Parts = SOUND, *, fates: Fates | None = None, bastions: int = 1
) -> World:
    """The scenario without faults but `fates`: the order in which actors go is left to chance."""
    return World(
        Baton(seed),
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=fates,
        bastions=bastions,
        parts=parts,
    )


def duel(seed: int, parts: Parts = SOUND, *, fates: Fates | None = None) -> World:
    """The scenario under three bastions without a lease, who take the lead from each other."""
    baton = Baton(seed)
    rates = Rates(stall=20.0, crash=2.0, fault=4.0)
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG,
        wishes=wishes(),
        fates=fates or Storm(baton.chance, rates, spared=USERS),
        bastions=3,
        has_lease=False,
        parts=parts,
    )


def comings(seed: int, parts: Parts = SOUND) -> World:
    """
    Machines that come and go under three bastions without a lease.

    Each of a user's jobs finds the machine of the last one just deleted, and stalled bastions wake
    up among machines that they have never heard of.
    """
    baton = Baton(seed)
    jobs = [
        _launch(45.0 * n + baton.chance.uniform(0, 30), "cat", "red", f"j{n}", h100=4, runs_s=5)
        for n in range(8)
    ]
    return World(
        baton,
        quota=QUOTA,
        config=CONFIG.replace("idle_timeout = 60", "idle_timeout = 10"),
        wishes=jobs,
        fates=Storm(baton.chance, Rates(stall=20.0, crash=0.0, fault=0.0, death=0.0)),
        bastions=3,
        has_lease=False,
        parts=parts,
    )


def newcomer(seed: int, parts: Parts = SOUND, *, fates: Fates) -> World:
    """Two bastions without a lease, and a job that comes when both have nothing to do."""
    return World(
        Baton(seed),
        quota=QUOTA,
        config=CONFIG,
        wishes=[_launch(25.0, "ann", "blue", "only", h100=8, runs_s=100)],
        fates=fates,
        bastions=2,
        has_lease=False,
        parts=parts,
    )


def quitter(seed: int, parts: Parts = SOUND, *, fates: Fates) -> World:
    """One job that is cancelled as soon as its machine is there."""
    return World(
        Baton(seed),
        quota=QUOTA,
        config=CONFIG,
        wishes=[
            _launch(0.0, "ann", "blue", "only", h100=8, runs_s=200),
            _cancel(40.0, "ann", "blue", "only"),
        ],
        fates=fates,
        parts=parts,
    )


SLICES = """
[toml-schema]
version = "1"
[total_resources]
v4 = 32
[project_membership]
blue = ["ann", "ben"]
red = ["cat"]
[project_resources.blue]
v4 = 0.5
[project_resources.red]
v4 = 0.5
[scheduler]
min_runtime_s = 20
grace_s = 5
max_grace_s = 20
"""
"""Two slices of two hosts, each of 8 cores."""

SLICE_CONFIG = """
[pools.tpu]
provider = "fake"
instance_type = "tpu-v4-16"
max_machines = 4
idle_timeout = 60
boot = 10
"""


def slices(seed: int, parts: Parts = SOUND) -> World:
    """
    Slices of two hosts, made and deleted together, in any storm.

    Blue borrows both, red reclaims one; a gang takes both.
    """
    baton = Baton(seed)
    rates = Rates().times(baton.chance.choice(HARDNESS))
    return World(
        baton,
        quota=SLICES,
        config=SLICE_CONFIG,
        wishes=[
            _slice_launch(0.0, "ann", "blue", "one", runs_s=60),
            _slice_launch(5.0, "ann", "blue", "borrows", runs_s=90),
            _slice_launch(60.0, "cat", "red", "reclaims", runs_s=30),
            _slice_launch(70.0, "cat", "red", "fails", runs_s=15, codes="3"),
            _slice_launch(80.0, "ben", "blue", "both", runs_s=20, replicas=2),
            _slice_launch(90.0, "ben", "blue", "unwanted", runs_s=500),
            _cancel(150.0, "ben", "blue", "unwanted"),
        ],
        fates=Storm(baton.chance, rates, spared=USERS),
        bastions=baton.chance.choice((1, 2)),
        parts=parts,
        machines=4,
        per_machine=Amounts({"v4": 8}),
    )


def _slice_launch(
    at_s: float,
    user: str,
    project: str,
    name: str,
    *,
    runs_s: float,
    codes: str = "0",
    replicas: int = 1,
) -> Wish:
    process = Process(["sim", str(runs_s), *codes.split()])
    job = Job(instance_type="tpu-v4-16", replicas=replicas, processes=(process,))
    body = LaunchRequest(launch=Launch(name=name, jobs=(job,), project=project))
    return Wish(
        at_s=at_s, user=user, project=project, verb="launch", name=name, body=lambda _: body
    )


def _launch(
    at_s: float,
    user: str,
    project: str,
    name: str,
    *,
    h100: int,
    runs_s: float,
    codes: str = "0",
    kind: str = "sim",
    replicas: int = 1,
    retries: int = 0,
    max_runtime: float | None = None,
) -> Wish:
    resources = Resources(h100=h100) if h100 else Resources()
    process = Process([kind, str(runs_s), *codes.split()], resources=resources)
    job = Job(
        name="main",
        replicas=replicas,
        processes=(process,),
        retries=retries,
        retry_backoff=5.0,
        max_runtime=max_runtime,
    )
    body = LaunchRequest(launch=Launch(name=name, jobs=(job,), project=project))
    return Wish(
        at_s=at_s, user=user, project=project, verb="launch", name=name, body=lambda _: body
    )


def _cancel(at_s: float, user: str, project: str, target: str) -> Wish:
    def body(answers: dict[str, Answer]) -> Body | None:
        answer = answers.get(target)
        if answer is None or not answer.jobs:
            return None
        return JobsRequest(targets=answer.jobs)

    return Wish(
        at_s=at_s,
        user=user,
        project=project,
        verb="cancel",
        name=f"cancel {target}",
        body=body,
    )
