"""What audits a bucket and brings its root back."""
