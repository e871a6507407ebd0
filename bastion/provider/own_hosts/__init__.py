"""
Machines that are your own hosts, reached by OpenSSH.

`ssh` is the provider, `calls` reaches its hosts and installs this build there, and `remote` is the
program that runs there and does what is requested. `claim` says which machine has a host, and
`resolve` finds names of the same host. `host_key` explains why a host's key is refused, and
`leftovers` are what earlier versions left on a host.
"""
