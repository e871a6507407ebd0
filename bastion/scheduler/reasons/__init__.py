"""
The reasons of the scheduler: one value per reason, and the words of its sentence.

`reason` lists them all. A job takes no part (`held_back`, `quota_file`), can never run
(`never_fits`), has what its project may have (`share`), or waits for other jobs (`ahead`), for
capacity (`capacity`) or for machines (`machines`). An admitted job holds devices or is stopped
(`holding`). `next_wall` is what comes after a reason, `outage` what is wrong with a machine, and
`words` the words that their sentences share.
"""
