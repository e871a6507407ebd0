"""A start-up script keeps within the size that a cloud accepts."""

from __future__ import annotations

import gzip
import random

import pytest

from bastion.errors import ProviderRefusedError
from bastion.provider.aws.ec2_request import MAX_USER_DATA
from bastion.provider.boot import user_data


def test_a_long_script_is_compressed() -> None:
    """A script that is too long is compressed to the same bytes each time, or refused."""
    assert user_data("#!/bin/sh\n", most=MAX_USER_DATA, cloud="EC2") == b"#!/bin/sh\n"
    long = "#!/bin/sh\n" + "echo hello\n" * 3000
    packed = user_data(long, most=MAX_USER_DATA, cloud="EC2")
    assert len(packed) <= MAX_USER_DATA
    assert packed == user_data(long, most=MAX_USER_DATA, cloud="EC2")
    assert gzip.decompress(packed).decode() == long
    noise = random.Random(1).randbytes(2 * MAX_USER_DATA).hex()
    with pytest.raises(ProviderRefusedError, match="EC2 takes 16384"):
        user_data(noise, most=MAX_USER_DATA, cloud="EC2")
