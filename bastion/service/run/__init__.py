"""One bastion as a program: put together, elected, run, stopped."""
