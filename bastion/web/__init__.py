"""
The pages that a lab reads, created from the contents of the bucket.

Comes in: `view/`, `history/` and `logs/` of one bucket, read only. Goes out: pages in HTML, events
as they come, and metrics. Nothing is kept: a restart loses nothing, and any number may run beside a
bastion or without one. Read `settings` (what it is told), `serve` (one process of it), `app` (its
routes and headers), `access` (who may read), `live` (what is pushed to open pages), then `reading/`
(the bucket as pages need it), `record/` (what has ended), `pages/` (one file a page) and `drawing/`
(what these are drawn with). `frame` stands around every page, `asked` is what an
address may ask of it, and `faults` are pages of mistakes; `templates/` and `static/` are markup and
style.
"""
