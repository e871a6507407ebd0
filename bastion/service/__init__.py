"""
The bastion: the only code with threads, loops and a lease.

`leader` is the turn, and names the folders in their order: `intake` reads the inbox and lets it
into the `draft` of root; `decide` asks the scheduler; one commit follows; `act` does what committed
state asks for outside; `publish` writes what others read. `config` holds what admins set, `access`
the rights that a bucket needs, `run` a bastion as a program, `repair` the audit and the restore of
a bucket. `monitors` calls the monitor of each job that something happened to. `journal` is the
bastion's own log, `compaction` turns its history into files, and `python_gc` pauses Python's
garbage collector during a turn. Read `leader.turn` first.
"""
