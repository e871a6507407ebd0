"""
What the agent of a cloud's machine knows from the cloud itself.

The metadata server of the machine is asked; notices of interruption, facts of TPUs and the call by
which an orphan deletes itself come out. Read `metadata` first, then `interruptions`, `orphan` and
`tpu`; `watch` has them asked and acts on what they say.

`removed_bucket` does for a bucket in a folder what `orphan` does for a cloud: it ends an agent that
nothing reaches any more.
"""
