"""
What admins set: the pools, the quota file, and the flags of `bastion serve`.

The input is two files in the bucket and a command line; the output is checked values, and every
problem with its line. Read `pool_config` first, which parses `config/bastion.toml`, and
`inventory`, the lists of hosts next to it. `admin_files` keeps the last good version of each file
in force. `settings` holds the flags and the intervals of the loops.
"""
