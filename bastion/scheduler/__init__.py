"""
Which job runs next, where, and why: `decide(snapshot, now) -> Plan`, a pure function.

Policy lives here and nowhere else. Nothing here reads a clock, does I/O or keeps state.

Read `cycle` first: it is the whole of a cycle on one screen, from `snapshot` (the input) to `plan`
(the output). From there the way leads down, and no folder knows one that comes before it here:
`explain/` tells every job its reason, `forecast/` when it will start; `phases/` decide;
`preemption/` finds victims; `state/` is what they decide on; `policies/` are the choices that a
quota file has; `placement/` is machines and devices, `queue/` the waiting jobs, and `reasons/` what
they are told.

Beside them: `promise` is what a cycle commits itself to, `outcome` what comes of it, and `effort`
how much it may search. `runs` are how long earlier jobs took, `charge` what an admitted one holds,
and `machine_report` what a job met at a machine that may not wait. `whatif` asks what another quota
file or one more job would change.
"""
