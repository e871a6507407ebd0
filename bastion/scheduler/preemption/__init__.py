"""Victims: the running gangs that are stopped for another."""
