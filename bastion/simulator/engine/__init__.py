"""
How time passes in a simulation.

`engine.py` goes from event to event; `rounds/` beside this folder from round to round. `state.py`
holds jobs and machines as records of the scheduler, `jobs/` is what the jobs of a simulation are,
`books.py` decayed usage, `fleet.py` machines that come and go. `driver.py` alone calls the
scheduler. `speed.py` says how fast a job works, `outside.py` what users and admins do meanwhile,
`standstill.py` ends what would go on for ever, `result.py` is what came out.
"""
