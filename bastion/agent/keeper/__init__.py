"""
The keeper, one tiny program per machine that holds users' processes, and the port to reach it.

Requests of the agent come in over a socket; events and records of ended attempts go out. Read
`port` first, the agent's possible requests. Then `main`, the program; `loop`, its turn; `attempt/`,
one attempt and its processes; `termination`, how an attempt ends; `journal`, what survives a crash.
In `socket/` are the wire format, the server and the agent's client; `poller` and `listener` wait
for the loop; `living` finds a keeper, and ends what a dead one has left. `reasons` are those of its
own notices. `fake` and `script` have the same behavior on a virtual clock, for tests.
"""
