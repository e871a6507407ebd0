"""What agents report of machines and hosts, and what is kept of a job that ended."""
