"""
Code in the bucket: users' bundles, and the wheels that machines install.

`bundles` stores users' code, and `wheel` stores what a new machine installs.
"""
