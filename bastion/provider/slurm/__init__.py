"""
Nodes of a Slurm cluster as machines: each is a job of Slurm that runs an agent.

A pool and a batch of machines come in, calls of Slurm's programs go out. Read `slurm`, then
`slurm_request` (a machine as a batch job), `programs` (how they are called, and what their failures
mean).
"""
