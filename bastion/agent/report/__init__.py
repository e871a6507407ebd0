"""
An agent's reports to the bucket: facts, logs and ends.

Facts of hosts and bytes of the keeper's spool come in; objects that are created once go out. Read
`bells` first, which sends the facts of a turn as one object. `log_shipping` turns a spool into log
segments, with secrets masked by `redaction`. `end_record` derives the `end` of a host, and
`setup_progress` reports a set-up that takes long.
"""
