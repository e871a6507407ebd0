"""The promises of the bundler."""
