"""
Container images: built and pushed, or found by their tag.

`image` builds one, `registry` resolves a tag to a digest, `reference` is its name in parts, and
`login` what docker's client knows of registries.
"""
