"""
Machines and devices: what is free, and where a gang lies.

Read `place` first: it gives a gang devices as a whole, or nothing. `blocks` are units that a gang
must not span, such as a rack. `capacity` is all machines and pools, `room` the free capacity of one
machine, `device_mask` its devices as bits, and `scope` the machines that pass the filters of a
request. `candidates` are what a placement policy sees, and `whole_machines` finds machines for
parts that share none. `hold` is what is closed for a gang, `closures` what maintenance closes,
`repair` treats broken machines as if they were in order, and `feasibility` computes what could ever
be had.
"""
