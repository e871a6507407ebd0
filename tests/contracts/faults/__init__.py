"""
Faults of machines, and a whole bastion that meets them with each provider.

`table` says which provider meets which fault and why the others cannot meet it; a test compares it
with `docs/explanation/faults-of-machines.md`. `stage` is a real leader over a real adapter, with
simulated agents. `grounds` are the providers, each with its faults.
"""
