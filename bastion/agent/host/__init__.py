"""
One host of one attempt on this machine, from the instruction that starts it to the end.

An instruction and the keeper's reports come in; the claim, the request to the keeper, the `end` and
bells go out. Read `host` first, which draws the stages. `host_start` is the claim, the set-up and
the barrier (`claim`, `start_request`, `container_start`), `host_run` is the time in the keeper
(`marks`, `output_saving`), and `host_end` is the register and the drain. `context` has the agent's
parts that every host uses, and `stage` the results that the parts of a host report. `command` runs
users' commands beside it.
"""
