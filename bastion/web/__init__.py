"""
The pages that a lab reads, created from the contents of the bucket.

The input is `view/`, `history/` and `logs/` of one bucket, read only. The output is HTML pages,
events as they happen, and metrics. Nothing is stored: a restart loses nothing, and any number of
servers can run beside a bastion or without one.

Read `settings` (the configuration), `serve` (one process), `app` (routes and headers), `access`
(who may read), `live` (what is pushed to open pages) and `download` (whole logs). Then read
`reading/` (the bucket as pages need it), `record/` (ended jobs), `pages/` (one file or folder per
page) and `drawing/` (what pages are drawn with). `shown` is the input of every page, `frame`
surrounds it, `asked` checks the query of an address, and `faults` are error pages. `templates/`
and `static/` are markup and style.
"""
