"""
Estimated starts: they are told, and change no decision.

Read `estimate` first. `playout` plays one future through, with what `end_times` says of the gangs
that run, and `confidence` is how sure that is. `next_change` is when time alone could give another
plan, and `drift` what of a plan moves with time.
"""
