"""Logs: read, filtered, followed."""
