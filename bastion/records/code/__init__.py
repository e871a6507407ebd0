"""Code in the bucket: `bundles` are those of users, `wheel` is what a new machine installs."""
