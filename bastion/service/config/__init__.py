"""What admins set: the pools, the quota file, and the flags of `serve`."""
