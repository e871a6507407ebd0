"""
What may go wrong with machines, and a whole bastion that meets it with each provider.

`table` says which fault is met by which provider and why the others cannot meet it; a test holds
`docs/explanation/faults-of-machines.md` against it. `stage` is a real leader over a real adapter,
with agents that are played. `grounds` are the providers, each with what goes wrong there.
"""
