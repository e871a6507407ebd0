"""
The machine that an agent runs on: files of jobs, faults, health and processes.

Standard library only, because the keeper uses it too. Read `job_files` first: the only code that
opens files in folders of jobs. `machine_fault` lists the errors that no job is to blame for,
`health` checks whether processes can start here, `stray_processes` finds and kills processes of
ours by their `pidfd`, `driver_program` runs programs that a broken driver may hold forever, `ports`
draws those at which hosts meet, and `environment_cache` deletes Python environments that no host
uses.
"""
