"""
What runs here and how much of the machine it uses: sampled every ten seconds, shown and summed up.

Processes of hosts (`process_groups`) and devices (`devices`) come in; the latter from a separate
program, `probe`, so a driver that hangs costs only its samples. Together they are the `sampler`.
`foreign` are the processes on devices that no job of ours started. `watch` gives each host its
samples (`series`), reports devices that stay idle, and publishes the use of the machine. Segments
beside the logs, a summary in the host's end, and `usage/` in the bucket go out. Read `port`, then
`watch`.
"""
