"""The command line: one verb a function, each a few lines on top of `bastion.Client`."""
