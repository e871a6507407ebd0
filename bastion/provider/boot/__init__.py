"""
How a new machine starts: the script that its provider runs at each boot, and the wheel it installs.

A pool and a `Boot` come in, the text of a start-up script goes out. Read `script` first, then
`bootstrap`, the program that the script carries; it and its parts `bucket_call` and, for pods,
`pod_role` use the standard library alone, for nothing is installed yet. `bare_program` makes one
small file of them. `wheel` makes the wheel of this very program, which stands in the bucket by
digest.
"""

from bastion.provider.boot.script import OPTIONS, Boot, cloud_init, startup_script
from bastion.provider.boot.wheel import Wheel, own_wheel

__all__ = ["OPTIONS", "Boot", "Wheel", "cloud_init", "own_wheel", "startup_script"]
