"""
Verbs that show and change nothing: list, show, why, events, logs, fetch, wait, pool, machines,
status.

`jobs` lists them; `job` and `code` are about some jobs, `events` about what happened to them. The
other files are called as their verbs are: `logs`, `fetch`, `wait`, `pool`, `status`.

`history` is the record, and `top` what is used now, told by `use_text` in words and bars.
"""
