"""
Which job runs next, where, and why: `decide(snapshot, now) -> Plan`, a pure function.

Policy lives here and nowhere else. Nothing here reads a clock, does I/O or keeps state.
"""
