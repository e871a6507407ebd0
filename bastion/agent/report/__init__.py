"""
What an agent reports to the bucket: facts, logs and ends.

In come facts of hosts and bytes of the keeper's spool; out go objects that are created once. Read
`bells` first, which sends the facts of a turn as one object. `log_shipping` turns a spool into log
segments, with secrets masked by `redaction`. `end_record` derives the `end` of a host, and
`setup_progress` reports a set-up that takes long.
"""
