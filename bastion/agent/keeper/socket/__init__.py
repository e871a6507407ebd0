"""The socket between agent and keeper: both ends, and what may be asked."""
