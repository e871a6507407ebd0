"""Tests of the documentation: links resolve, commands run, recipes work."""
