"""
The quota file: its text is read into a `Quota`, or all of its errors are reported.

`config` is the entry point. `projects` (with `limits` and `budget`), `groups` and `maintenance`
read their tables, and `shares` converts fractions to whole units. All of them read through
`checks`, which records each problem with its line and raises them together, as `errors`. `duration`
parses `8h`.
"""
