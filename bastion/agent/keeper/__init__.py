"""
The keeper, one tiny program per machine that holds users' processes, and the port to reach it.

`main` is the program, `loop` its decisions; `port` is what an agent may ask of it, `client` asks
over its socket, and `fake` is the same behaviour on a virtual clock.
"""
