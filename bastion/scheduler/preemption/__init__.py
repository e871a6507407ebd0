"""
Victims: the running gangs that are stopped for another.

Read `victims` first: it lets gangs go on trial until one fits, and keeps the fewest. `borrowers`
and `harm` say in which order, `need` how far the gang is from fitting, `lack` how many replicas are
without a place, `pending` which of those let go leave no place yet, and `spared` which need not go
after all. `stop_times` is when they are told to stop.
"""
