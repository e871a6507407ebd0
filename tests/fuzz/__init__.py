"""Fuzz tests of every function that reads bytes from outside."""
