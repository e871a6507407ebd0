"""
A new machine before its greeting: the pool's commands, and the check of its health.

The folder of the start-up script comes in, with `boot.json` in it. Out go the steps with their
seconds, the faults of devices, and a bell if the machine cannot be started. Read `begin` first,
then `setup_commands` and `devices`, which is pure except for small readers, with `nvml` for GPUs.
`foreign` finds devices that other processes hold, and `clock_check` checks the clock.
`health_watch` repeats the checks for as long as the agent runs, and `cleaning` keeps its home
small. `upgrades` are other builds, which `upgrade` installs later.
"""
