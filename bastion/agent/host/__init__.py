"""
One host of one attempt on this machine, from the instruction that starts it to the end.

In come an instruction and what the keeper reports; out go the claim, the request to the keeper, the
`end` and bells. Read `host` first, which draws the stages. `host_start` is the claim, the set-up
and the barrier (`claim`, `start_request`, `container_start`), `host_run` the time in the keeper
(`marks`, `output_saving`), `host_end` the register and the drain. `context` is what the agent hands
to every host, and `stage` what the parts report to it. `command` holds what users run beside it.
"""
