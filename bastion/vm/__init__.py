"""
The bastion's own VM: one small machine of a cloud that runs `bastion serve` and nothing else.

A `BastionVm` comes in, calls of the cloud go out. Read `bastion_vm` (what it is), `script` (what it
runs at each boot), then `gce` and `ec2`, which make, start, stop, upgrade and delete it. `open`
chooses between them.
"""
