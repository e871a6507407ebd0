"""
Importers: job files of other systems, read as launches of Bastion.

Each file knows one system: its options, its defaults, and which of them have no counterpart here.
An option without a counterpart is refused by name and never dropped, because a job that runs
differently from what its author specified is worse than one that does not run.

Read `files` first, which recognizes files by name and content, then `imported`, the result of
reading one. `sbatch` reads Slurm's scripts, with `sbatch_options` (the lines), `sbatch_values`
(their values) and `sbatch_script` (the shell that runs one). `axlearn` reads AXLearn's specs.
`clusterfudge` runs launch scripts of Clusterfudge: `clusterfudge_values` has the types that they
use, and `clusterfudge_launch` the resulting launch.
"""
