"""
Which job runs next, where, and why: `decide(snapshot, now) -> Plan`, a pure function.

All scheduling policy is here and nowhere else. This package reads no clock, does no I/O and keeps
no state.

Start with `cycle`: it shows a whole cycle on one screen, from `snapshot` (the input) to `plan` (the
output). The folders below it form layers, and no folder imports one that is listed before it:
`explain/` gives every job its reason, and `forecast/` estimates when it will start; `phases/` makes
the decisions; `preemption/` finds victims; `state/` is the state on which they work; `policies/`
are the options of a quota file; `placement/` is machines and devices, `queue/` the waiting jobs,
and `reasons/` the reasons and their sentences.

Beside them, `promise` is what a cycle commits to, `outcome` what it results in, and `effort` how
much it may search. `runs` keeps how long earlier jobs took, `charge` computes what an admitted job
holds, and `machine_report` describes why a machine could not take a job. `whatif` answers what
another quota file or one more job would change.
"""
