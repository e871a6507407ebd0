"""
Code in the bucket: bundles of users, and the wheels that machines install.

`bundles` are those of users, `wheel` is what a new machine installs.
"""
