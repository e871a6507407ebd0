"""
Object stores: the port, its adapters, and `open_store`, which chooses one.

Read `port` first: the five operations that every store has. `gcs`, `s3` and `azure/` are buckets,
`folder/` is a folder on this machine, and `memory` is a dictionary for tests. `open` chooses by the
URL, and `probe` checks that a store enforces its preconditions. `keys` are the names that all
stores allow, `reach` is the distance to a store, and `date` is the time by its own clock. An
`exchange` is one request over HTTP and its answer, `roads` are connections to servers, and
`network_fault` is why there is none.
"""

from bastion.store.open import open_store
from bastion.store.port import Entry, Object, ObjectStore, Version, Written

__all__ = ["Entry", "Object", "ObjectStore", "Version", "Written", "open_store"]
