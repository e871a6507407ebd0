"""
How stored records are encoded, decoded and migrated, and how large each can be.

All records pass through `codec`, or through `well_formed` if they are as expected. `migrate` reads
older ones, and `limits` has their maximum sizes.
"""
