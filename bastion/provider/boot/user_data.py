"""A start-up script in the size that a cloud accepts. Pure."""

from __future__ import annotations

import gzip

from bastion.errors import ProviderRefusedError


def user_data(script: str, *, most: int, cloud: str) -> bytes:
    """
    Return `script` as user data: unchanged, or compressed if it is too long.

    Cloud-init reads both.

    Args:
        script: The start-up script.
        most: The maximum number of bytes.
        cloud: Who sets that limit, for error messages.

    Raises:
        ProviderRefusedError: It is too long even when compressed.
    """
    plain = script.encode()
    if len(plain) <= most:
        return plain
    packed = gzip.compress(plain, mtime=0)  # the same bytes each time, as EC2's client token needs
    if len(packed) > most:
        raise ProviderRefusedError(
            f"the start-up script has {len(packed)} bytes, compressed; {cloud} takes {most}",
            hint="move commands of `setup` into a script that the image or the bucket has",
        )
    return packed
