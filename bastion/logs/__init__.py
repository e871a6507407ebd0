"""
Log segments: agents write them, clients follow and search them.

The input is bytes of a process's log, the output create-only objects in the bucket. `segments` has
their names and writes them; `pace` decides when.
"""
