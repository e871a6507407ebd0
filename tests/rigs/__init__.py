"""
What the tests of several folders build on: real parts of Bastion amid scripted ones.

`leader` is a bastion in one thread. `agent` is an agent's bucket, and `keepers` are its keepers.
`scripted_bastion` answers a client. `job_records`, `git_repositories`, `trees` and `blobs` make
values and files. Servers that stand for clouds and registries are in `tests/servers/`. A helper
that one folder alone uses is in that folder, in a file without tests.
"""
