"""
The production scheduler on a virtual clock: how a workload would fare under a quota file.

`simulated` in `run.py` runs one `workload/` on one `setup.py` (a `cluster/`, a quota file and
policies) and returns a `Result`. The `engine/` lets time pass and calls the scheduler's own
`decide`; no policy is implemented twice. `policies/` are those that only studies have.

`expectations.py` checks a quota file at every cycle. `metrics/`, `report/` and `study/` present the
results, and `replay/` replays the record of a bucket.

`fitting` says which jobs can run at all, `rounds` are those in which jobs take turns, and
`lone_arrival` is a cycle that need not be decided. `parts` are the orders of one simulation, and
`synthesizer` is the best of several.
"""

from bastion.simulator.cluster.cluster import Change, Cluster, Shape
from bastion.simulator.engine.jobs.costs import IDEAL, Costs
from bastion.simulator.study.simulate import simulate
from bastion.simulator.study.study import Study
from bastion.simulator.workload.generate import Recipe, generated
from bastion.simulator.workload.job import TraceJob, Workload
from bastion.simulator.workload.trace import read_trace, write_trace

__all__ = [
    "IDEAL",
    "Change",
    "Cluster",
    "Costs",
    "Recipe",
    "Shape",
    "Study",
    "TraceJob",
    "Workload",
    "generated",
    "read_trace",
    "simulate",
    "write_trace",
]
