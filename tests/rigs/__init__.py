"""
Shared foundations of the tests in several folders: real parts of Bastion among scripted ones.

`leader` is a bastion in one thread. `agent` is an agent's bucket, and `keepers` are its keepers.
`scripted_bastion` answers a client. `job_records`, `git_repositories`, `trees` and `blobs` make
values and files. Servers that stand in for clouds and registries are in `tests/servers/`. A helper
that only one folder uses is in that folder, in a file without tests.
"""
