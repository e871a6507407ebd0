"""Tables of the configuration that both the bastion and its clients read."""
