"""
Where objects are in the bucket.

`layout` has every key, `key_parts` the parts of a key, and `ulid` names that sort by time.
"""
