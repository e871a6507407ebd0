"""The working state of one cycle: what runs, what each project holds, what is reserved."""
