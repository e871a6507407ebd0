"""
Machines and devices: what is free, and where a gang lies.

Read `place` first: it gives a gang devices as a whole, or nothing. `blocks` are what a gang may
have to lie in as a whole, as a rack. `capacity` is all machines and pools, `room` what is free on
one of them, `device_mask` its devices as bits, and `scope` the machines that the filters of a
request leave. `candidates` are what a placement policy sees,
`whole_machines` what a part takes that shares with no other. `hold` is what is closed for a gang,
`closures` what maintenance closes, `repair` machines as if they were in order, and `feasibility`
what could ever be had.
"""
