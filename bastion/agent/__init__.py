"""
The programs of a machine: the agent, which reads and writes the bucket, and the keeper.

Instructions come in; claims, ends, logs and bells go out. Read `agent` first, the agent's turn,
with `instructions` and `host/`, one host of one attempt from its claim to its end. `setup/`
prepares code, image, Python environment and secrets; `report/` sends bells and logs; `keeper/`
holds the processes and survives the agent; `containers/` starts them in images. `home` is the
agent's folder, and `attempt_key` makes its keys. `kept_output` holds the outputs that jobs keep for
their next attempt, `errands` are calls beside the agent's own thread, `machine/` observes the
machine, and `usage/` samples what is used of it. On a machine that a start-up script made, `begin/`
comes before the greeting, and `cloud/` asks the machine's cloud. `check/` is what admins ask of one
machine. `main` is the program, with its `settings` and its `agent_log`. `keeper_life` begins a
keeper, and `decommission` ends a machine.
"""
