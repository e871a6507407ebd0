"""Who may do what in a bucket, and the settings a bucket needs, in the words of each cloud."""
