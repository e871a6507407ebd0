"""
Attempts in containers: the machine's container engine, and the process that represents a container.

Requests go out to the engine's socket; output, exit codes and leftover containers come in. Read
`engine` first, the HTTP client; then `program`, which the keeper runs in place of a container; then
`watch`, which checks the engine and removes leftover containers. `bastion.agent.setup.image` pulls
the images.
"""
