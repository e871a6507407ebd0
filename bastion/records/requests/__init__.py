"""What users and admins ask for through the inbox, and what of it can be refused at once."""
