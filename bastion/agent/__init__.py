"""
The programs of a machine: the agent, which reads and writes the bucket, and the keeper.

Instructions come in; claims, ends, logs and bells go out. Read `agent` first, the agent's turn,
with `instructions` and `host/`, one host of one attempt from its claim to its end. `setup/`
prepares code, image, Python environment and secrets; `report/` sends bells and logs; `keeper/`
holds the processes and survives the agent; `containers/` starts them in images. `home` is the
agent's folder, and `attempt_key` builds its keys. `kept_output` holds the outputs that jobs keep
for their next attempt, `errands` are calls on other threads, `machine/` observes the machine, and
`usage/` samples its use. On a machine that a start-up script created, `begin/` runs before the
greeting, and `cloud/` queries the machine's cloud. `check/` is the checks of one machine that
admins request. `main` is the program, with its `settings` and its `agent_log`. `keeper_life` starts
a keeper, and `decommission` removes everything from a machine.
"""
