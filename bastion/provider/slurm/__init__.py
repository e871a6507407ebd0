"""
Nodes of a Slurm cluster as machines: each is a Slurm job that runs an agent.

The input is a pool and a batch of machines. The output is calls of Slurm's programs. Read `slurm`,
then `slurm_request` (a machine as a batch job) and `programs` (how they are called, and what their
failures mean).
"""
