"""One attempt in the keeper: its processes, what they write, how they end."""
