"""
The bastion: the only code with threads, loops and a lease.

`leader` is the turn, and lists the folders in the order in which it uses them. `intake` reads the
inbox and applies it to the `draft` of root; `decide` asks the scheduler; one commit follows; `act`
carries out what committed state requires outside; `publish` writes what others read. `config` holds
what admins set, and `access` the rights that a bucket needs. `run` runs a bastion as a program, and
`repair` has the audit and the restore of a bucket. `monitors` calls the monitor of each job that
may need it. `journal` is the bastion's own log and `kept_log` writes it to the bucket, `compaction`
turns its history into files, and `python_gc` pauses Python's garbage collector during a turn. Read
`leader.turn` first.
"""
