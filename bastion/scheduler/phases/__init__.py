"""
The phases of one cycle, in the order in which it goes through them.

Phases 1 and 2 are `survey`. Phase 3 begins with what earlier cycles promised (`promises`, and
`proposals`, whose victims are not told to stop yet); then gangs within a share start or get a
promise (`guarantee`, by what `entitlement` says). Phase 4 is `planned_starts`, phase 5 `borrow`. At
the end elastic gangs give back (`shrinkage`) and grow (`growth`), and what maintenance would cut
off is told to stop (`maintenance`). What all of them do with promises and planned starts is in
`reservations/`.
"""
