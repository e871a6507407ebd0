"""A launch before it is sent: read, checked, traced to its source, tried."""
