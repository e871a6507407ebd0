"""
Log segments: agents write them, clients follow and search them.

Bytes of a process's log come in; create-only objects in the bucket go out. `segments` has their
names and writes them; `pace` decides when.
"""
