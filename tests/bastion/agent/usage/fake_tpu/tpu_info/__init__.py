"""A replacement for the package `tpu-info` on a machine with four chips of TPU v4."""
