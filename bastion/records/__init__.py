"""
Stored objects: their keys, their formats, and the two kinds of conditional writes.

Read `root` first: the state, and the one loop that changes it. `register` is the other conditional
write. `keys/` says where every object is, and `coding/` how it is encoded. `requests/` and
`reports/` have the incoming objects, `settings/` the tables of the configuration, and `code/` the
bucket's code. `outlook` makes the scheduler's input from root, and `tasks` the tasks of the arrays
in it. `standing` says how long a view is true, and `maintenance` what closes machines in it.
`encoded_records` keeps encoded bytes from one commit to the next.
"""
