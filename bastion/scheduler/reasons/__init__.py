"""
What the scheduler tells: one value a reason, and the words that make its sentence.

`reason` names them all. A job takes no part (`held_back`, `quota_file`), can never run
(`never_fits`), has what its project may have (`share`), waits for others (`ahead`), for capacity
(`capacity`) or for machines (`machines`); an admitted one holds or is stopped (`holding`).
`next_wall` is what comes after a reason, `outage` what is wrong with a machine, and `words` are
what their sentences share.
"""
