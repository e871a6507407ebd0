"""
Machines that are hosts of your own, reached by OpenSSH.

`ssh` is the provider, `calls` reaches its hosts and puts this build there, and `remote` is the
program that does there what is asked. `claim` says which machine has a host, and `resolve` which
names are one host.

`host_key` tells of a host whose key is refused, and `leftovers` are what earlier versions left on a
host.
"""
