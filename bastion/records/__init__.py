"""
Stored objects: their keys, their formats, and the two kinds of conditional writes.

Read `root` first: the state, and the one loop that changes it. `register` is the other conditional
write. `keys/` says where everything lies, `coding/` how it is written. What comes in is in
`requests/` and `reports/`, the bucket's tables of the configuration in `settings/`, and its code in
`code/`. `outlook` makes the scheduler's input of root, `tasks` the tasks of arrays in it;
`standing` is until when a view is true, `maintenance` what closes machines in it, and
`encoded_records` are bytes that are kept from one commit to the next.
"""
