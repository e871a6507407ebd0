"""What runs, and what each project holds."""
