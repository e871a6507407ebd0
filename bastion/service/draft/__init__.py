"""Root as one turn changes it, and what is looked up in it."""
