"""Stored objects: their keys, their formats, and the two kinds of conditional writes."""
