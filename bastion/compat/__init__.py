"""
Importers: job files of other systems, read as launches of Bastion.

Each file knows one system: its options, its defaults, and which of them have no counterpart here.
An option without a counterpart is refused by name and never dropped, because a job that runs
differently from what its author wrote is worse than one that does not run.

Read `files` first, which knows them by name and content, and `imported`, what reading one gives.
`sbatch` reads Slurm's scripts, with `sbatch_options` (the lines), `sbatch_values` (what they say)
and `sbatch_script` (the shell that runs one). `axlearn` reads AXLearn's specs. `clusterfudge` runs
launch scripts of Clusterfudge: `clusterfudge_values` is what they are written with,
`clusterfudge_launch` the launch that comes of it.
"""
