"""Measurements of the product; each module has a `main()`, and `make bench` lists them."""
