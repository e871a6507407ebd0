"""
How a new machine starts: the script that its provider runs at each boot, and the wheel it installs.

The input is a pool and a `Boot`, the output the text of a start-up script. Read `script` first,
then `bootstrap`, the program that the script carries. It and its parts `bucket_call`, for pods
`pod_role`, and for roots in Azure `azure_call` use only the standard library, because nothing is
installed yet. `bare_program` combines them into one small file. `wheel` builds the wheel of this
program, which is stored in the bucket by digest. `user_data` keeps a script below a cloud's limit.
"""

from bastion.provider.boot.script import OPTIONS, Boot, cloud_init, startup_script
from bastion.provider.boot.user_data import user_data
from bastion.provider.boot.wheel import Wheel, own_wheel

__all__ = ["OPTIONS", "Boot", "Wheel", "cloud_init", "own_wheel", "startup_script", "user_data"]
