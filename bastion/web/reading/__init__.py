"""
The bucket as pages need it: bounded reads, and the last good answer while it is unreachable.

The input is a store, the output frozen values. Read `board` (what was last published),
`board_reader` (how it is kept fresh), `job_page` (one job), `trail` (events of a job), `log_window`
(a piece of a log), and `bucket` (all of them, opened once). `live_use` and `host_use` are what
machines use now and have used, and `log_tail` is the end of a growing log. This package must not
know HTML.
"""
