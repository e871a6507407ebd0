"""Machines and devices: what is free, and where a gang lies."""
