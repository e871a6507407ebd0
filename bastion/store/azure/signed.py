"""A request to one of Azure's servers, signed and sent once."""

from __future__ import annotations

from collections.abc import Mapping

from bastion.store.azure.caller import Caller
from bastion.store.exchange import ANSWER_BYTES, Answer, Exchange


def send_signed(
    exchange: Exchange,
    caller: Caller,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    limit_bytes: int = ANSWER_BYTES,
) -> Answer:
    """
    Send one request once, and again with a new token if Azure refused the first one.

    Raises:
        StoreError: There is no complete answer, or no token can be had now.
        StoreRefusedError: There are no credentials.
    """

    def send() -> Answer:
        place, signed = caller.signed(method, url, headers)
        return exchange.send(method, place, signed, body, limit_bytes=limit_bytes)

    answer = send()
    if answer.status == 401 and caller.renew():
        # Certainly not executed: Azure may revoke a token long before it expires.
        answer = send()
    return answer
