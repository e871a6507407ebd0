"""What committed state asks for outside: objects, machines, notifications, clean-up."""
