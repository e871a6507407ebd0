"""
How time passes in a simulation.

`engine.py` goes from event to event, `rounds.py` from round to round, with `strict_walk.py` for
comparison with published studies. `state.py` holds jobs and machines as records of the scheduler,
`life.py` the work of one job, `waiting.py` which jobs are shown, `books.py` decayed usage,
`fleet.py` machines that come and go. `driver.py` alone calls the scheduler. `costs.py` and
`speed.py` say what takes how long, `result.py` what came out.
"""
