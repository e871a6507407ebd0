"""Requests: named, sent, answered."""
