"""Estimated starts: they are told, and change no decision."""
