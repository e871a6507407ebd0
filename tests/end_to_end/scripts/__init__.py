"""Launch scripts as users write them, each copied beside some code and run by itself."""
