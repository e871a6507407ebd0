"""
The working state of one cycle: what runs, what each project holds, what is reserved.

`draft` is what the phases change, and its `decisions` are the starts and stops. `holders/` is what
runs and holds, `memory/` what lasts from one cycle to the next, and `consistency` compares that
with a state made from nothing. `reservation` is what is closed for a waiting gang, `departing` what
is being stopped, and `blocked` what cannot start. `search` keeps the results of searches, and
`upper_bound` what could be free at most.
"""
