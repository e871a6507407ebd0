"""Log segments: written by agents, followed and searched by anyone."""
