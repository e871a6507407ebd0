"""
How time passes in a simulation.

`engine.py` advances from event to event; `rounds/` beside this folder advances from round to round.
`state.py` holds jobs and machines as records of the scheduler, `jobs/` defines the jobs of a
simulation, `books.py` decayed usage, and `fleet.py` machines that come and go. Only `driver.py`
calls the scheduler. `speed.py` says how fast a job works, and `outside.py` what users and admins do
in the meantime. `standstill.py` ends what would continue forever, and `result.py` is the outcome.
"""
