"""
Estimated starts: they are published, and change no decision.

Read `estimate` first. `playout` simulates one future from the ends of running gangs in `end_times`,
and `confidence` says how certain a start is. `next_change` computes when time alone could give
another plan, and `drift` which parts of a plan change with time.
"""
