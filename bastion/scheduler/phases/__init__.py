"""
The phases of one cycle, in their order.

`survey` is phases 1 and 2. Phase 3 begins with earlier promises (`promises`, and `proposals`, whose
victims are not being stopped yet); then gangs within a share start or get a promise (`guarantee`,
by the rules of `entitlement`). Phase 4 is `planned_starts`, phase 5 `borrow`. At the end elastic
gangs shrink (`shrinkage`) and grow (`growth`), and gangs that maintenance would cut off are stopped
(`maintenance`). What all of them do with promises and planned starts is in `reservations/`.
"""
