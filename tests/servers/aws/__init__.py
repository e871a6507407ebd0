"""
EC2 on loopback, and the metadata server of one instance.

`ec2` is moto behind a layer that adds what moto lacks; `metadata` is what an instance reads about
itself. A test controls both through plain attributes.
"""
