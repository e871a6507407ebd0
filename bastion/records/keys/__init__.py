"""
Where things lie in the bucket: every key, what a key says, and names that sort by time.

`layout` has every key, `key_parts` what one says, and `ulid` names that sort by time.
"""
