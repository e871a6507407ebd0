"""How stored records are encoded, decoded and migrated, and how large each may be."""
