"""What a bucket says of jobs, pools and quota: published views, and the search in them."""
