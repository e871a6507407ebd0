"""
How time passes in a simulation.

`engine.py` goes from event to event; `rounds/` beside this folder from round to round. `state.py`
holds jobs and machines as records of the scheduler, `life.py` the work of one job, `report.py` what
policies are told of it, `waiting.py` which jobs are shown, `books.py` decayed usage, `fleet.py`
machines that come and go. `driver.py` alone calls the scheduler. `costs.py` and `speed.py` say what
takes how long, `outside.py` what users and admins do meanwhile, `standstill.py` ends what would go
on for ever, `result.py` is what came out.
"""
