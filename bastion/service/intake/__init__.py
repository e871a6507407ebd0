"""What a turn reads and lets in: requests and bells, each checked before it is believed."""
