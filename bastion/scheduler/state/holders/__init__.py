"""
What runs, and what each project holds.

`running` is an admitted gang, `footprint` what it takes of each machine, `ends` when it ends, and
`release` what would be free without it. `ledger` is what every project holds and `shares` what it
may still get; `leavers` are temporarily left out of both. `classes` decides which gangs are on
their own share, `excess` computes how far a project is above it, `user_limits` what each user may
have, and `budgets` which projects have used their budget in this period.
"""
