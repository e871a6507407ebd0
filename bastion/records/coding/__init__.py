"""
How stored records are encoded, decoded and migrated, and how large each may be.

All records pass through `codec`, or through `well_formed` where they are as they should be.
`migrate` reads older ones, and `limits` are their sizes.
"""
