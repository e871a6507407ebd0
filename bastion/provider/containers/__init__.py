"""
Containers of an engine as machines.

The input is a pool and a batch of machines. The output is calls to the engine. Read `docker`, then
`docker_request` (a pool as the body of a request) and `engine` (a client, and what its failures
mean).
"""
