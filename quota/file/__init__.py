"""
The quota file: its text read into a `Quota`, or told with everything that is wrong with it.

`config` is the way in. `projects` (with `limits` and `budget`), `groups` and `maintenance` read
their tables, `shares` makes whole units of fractions. All of them read through `checks`, which
remembers each problem with its line and raises them together, as `errors`. `duration` knows `8h`.
"""
