"""
The bastion's own VM: one small machine in a cloud that only runs `bastion serve`.

A `BastionVm` comes in, calls of the cloud go out. Read `bastion_vm` (what it is), `script` (what it
runs at each boot), then `gce` and `ec2`, which make, start, stop, upgrade and delete it. `renewed`
is what an upgrade keeps, and `open` chooses between the clouds.
"""
