"""
Verbs that show things and change nothing: list, show, why, events, logs, fetch, wait, pool,
machines, status, top, history, usage, query.

`jobs` lists jobs; `job` and `code` show some of them; `events` shows what happened to them.
`history` shows the record of ended jobs, `top` the current use, which `use_text` formats. Other
files have the name of their verb: `logs`, `fetch`, `wait`, `pool`, `status`.
"""
