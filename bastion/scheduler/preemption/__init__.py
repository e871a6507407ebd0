"""
Victims: the running gangs that are stopped for another.

Read `victims` first: it removes gangs on trial until one fits, and keeps the fewest. `borrowers`
and `harm` define the order, `need` how far the gang is from fitting, `lack` how many replicas have
no place, `pending` which removed gangs leave no place yet, and `spared` which ones need not stop
after all. `stop_times` decides when they stop.
"""
