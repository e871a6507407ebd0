"""The bastion at work: its loops, its settings, and the performing of actions."""
