"""Measurements of the product, each a module with a `main()`; `make bench` lists them."""
