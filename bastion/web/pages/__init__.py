"""
The pages: what each shows, as values that its template lays out.

Comes in: what `bastion.web.reading` found. Goes out: frozen values and, through `render`, HTML.
Each file is one page: `now`, `job`, `log`, `machines`, `usage` (projects and users,
with a `chart`), `timeline`, `quota`. `occupancy` and `shares` are the
map of devices and the bars of shares, `paging` is a part of a long table, and `palette` gives each
project its colour. A template escapes everything that it is given.
"""
