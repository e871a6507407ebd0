"""
The process of one bastion: how it is composed, elected, run and stopped.

The input is `ServeSettings` from the command line; the output is an exit code. Read `serve` first
(the loop around the leader's turns), then `election` (taking over root; `own_process` says whether
a leader on this machine has ended), `stopping` (signals and deadlines) and `compose` (the adapters
and lanes of a bastion).
"""
