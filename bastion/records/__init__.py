"""What is stored: keys, records, and the conditional writes that everything stands on."""
