"""
The programs of a machine: the agent, which reads and writes the bucket, and the keeper.

In come instructions; out go claims, ends, logs and bells. Read `agent` first, the agent's turn,
with `instructions` and `host/`, one host of one attempt from its claim to its end. `setup/`
prepares code, image, Python environment and secrets; `report/` sends bells and logs; `keeper/`
holds the processes and survives the agent; `containers/` starts them in images. `home` is the
agent's folder, whose keys `attempt_key` makes, `kept_output` what jobs leave there for their next
attempt, `errands` are calls beside the agent's own thread, and `machine/` is what it knows of the
machine. `main` is the program, with its `settings` and its `agent_log`; `keeper_life` and
`decommission` are the begin and the end of a keeper and of a machine.
"""
