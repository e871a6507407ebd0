"""
The working state of one cycle: what runs, what each project holds, what is reserved.

`draft` is what the phases change, and its `decisions` are what starts and what is stopped.
`holders/` is what runs and holds, `memory/` what lasts from one cycle to the next, and
`consistency` compares that with a state made anew. `reservation` is what is closed for a waiting
gang, `departing` what is being stopped, `blocked` what cannot start. `search` is what searches have
found out, and `upper_bound` what could be free at most.
"""
