"""Object stores: the port, its adapters, and `open_store`, which chooses one."""

from bastion.store.open import open_store
from bastion.store.port import Entry, Object, ObjectStore, Version, Written

__all__ = ["Entry", "Object", "ObjectStore", "Version", "Written", "open_store"]
