"""Promises and planned starts: how they are found, made, kept closed, lent and given up."""
