"""
What a new machine does before it greets: the pool's commands, and the check of its health.

In comes the folder of the start-up script, `boot.json` in it; out go the steps with their seconds,
what is wrong with devices, and a bell where the machine cannot be begun. Read `begin` first, then
`setup_commands` and `devices`, which is pure but for small readers, with `nvml` for GPUs.
`foreign` says which devices others hold, and `clock_check` whether the clock is right.
`health_watch` goes on looking for as long as the agent runs, and `cleaning` keeps its home small.
`upgrades` are other builds, which `upgrade` installs later.
"""
