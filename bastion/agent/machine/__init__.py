"""The machine that an agent runs on: its files, faults, health and processes."""
