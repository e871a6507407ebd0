"""
Containers of an engine as machines.

A pool and a batch of machines come in, calls of the engine go out. Read `docker`, then
`docker_request` (a pool as the body of a request), `engine` (a client, and what its failures mean).
"""
