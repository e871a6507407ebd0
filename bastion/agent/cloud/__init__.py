"""
What the agent of a cloud machine knows from the cloud itself.

It queries the machine's metadata server. Out come notices of interruption, facts about TPUs, and
the call by which an orphan deletes itself. Read `metadata` first, then `interruptions`, `orphan`
and `tpu`; `watch` sends the queries and acts on the answers. `removed_bucket` does for a bucket in
a folder what `orphan` does for a cloud: it ends an agent whose bucket is gone.
"""
