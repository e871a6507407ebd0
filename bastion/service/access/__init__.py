"""
Access to a bucket: the rights of every identity, and the settings that a bucket needs.

The input is the identities (`People`) and the quota file's members; the output is commands for a
shell, or calls that apply them. The leader does not use this. Read `grants` first (the rights, for
any cloud), then `identity` (which identities a cloud accepts), `place` (a root's URL), and `gcs`,
`s3` and `azure` (the same rights in the terms of a cloud).
"""
