"""
The repair of a bucket: the audit (`bastion fsck`), the restore of a copy of root, and what
providers have that root does not know (`inventory`, for `bastion doctor`).

The input is a store; the output is findings (`audit`), or a new root that is committed in place of
a lost or damaged one (`Restore`). Neither runs in the leader. For the audit read `survey` (what is
read), `fsck` (the rules) and `overdue` (the rules about time). For the restore read `restore`
(choosing a copy, reading what came after it, the commit), `restored_root` (the new root),
`restored_arrays` and `unstarted_launches`. `uninstall` says whether everything of Bastion can be
removed from a host.
"""
