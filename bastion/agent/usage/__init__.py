"""
What runs here and how much of the machine it uses: sampled every ten seconds, shown and summed up.

In: the processes of hosts (`process_groups`), the devices (`devices`, a program of its own in
`probe`, so that a driver that hangs costs nothing but its samples). Together they are the
`sampler`. `foreign` are the processes on devices that no job of ours started.
`watch` gives each host its samples (`series`), tells of devices that stay idle, and publishes the
use of the machine. Out: segments beside the logs, a summary in the host's end, `usage/` in the
bucket. Read `port`, then `watch`.
"""
