"""
What runs, and what each project holds.

`running` is an admitted gang, `footprint` what it takes of each machine, `ends` when it has ended,
and `release` what would be free without it. `ledger` is what every project holds and `shares` what
it may still get; `leavers` are left out of both for a moment. `classes` says which gangs stand on
their own share, `excess` how far a project is above it, `user_limits` what each user may have, and
`budgets` which projects have used what they may in this period.
"""
