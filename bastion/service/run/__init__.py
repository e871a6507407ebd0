"""
The process of one bastion: it is composed, elected, run and stopped.

In come `ServeSettings` from the command line; out comes an exit code. Read `serve` first (the loop
around the leader's turns), then `election` (taking over root, where `own_process` tells whether a
leader of this machine has ended), `stopping` (signals and deadlines) and `compose` (which adapters
and lanes a bastion is made of).
"""
