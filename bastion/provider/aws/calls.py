"""One call to EC2 by Amazon's client, and what its failures mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.aws.verdicts import verdict
from bastion.store.network_fault import fault_of


def call(client: Any, method: str, what: str, *, but: Iterable[str] = (), **given: Any) -> Any:
    """
    Return the answer to one call; an error whose code is in `but` counts as an empty answer.

    Args:
        client: A boto3 client.
        method: Its method.
        what: What is being done, for error messages.
        but: EC2 error codes.
        given: Arguments of the method.

    Raises:
        ProviderError: Depends on EC2's answer; see `verdict`.
    """
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        return getattr(client, method)(**given)
    except exceptions.ClientError as error:
        said = error.response.get("Error", {})
        code, text = said.get("Code", ""), said.get("Message", "")
        if code in but:
            return {}
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        raise verdict(code, text, status=status, what=what) from error
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.ParamValidationError,
        exceptions.ProfileNotFound,
        exceptions.UnauthorizedSSOTokenError,
    ) as error:
        raise ProviderRefusedError(
            f"{what}: {error}", hint="run: aws sts get-caller-identity"
        ) from error
    # KeyError, ValueError: an incomplete answer, in which a required value is missing or truncated.
    except (
        exceptions.BotoCoreError,
        exceptions.HTTPClientError,
        ResponseParserError,
        OSError,
        KeyError,
        ValueError,
    ) as error:
        fault = fault_of(error, client.meta.endpoint_url, authorities="AWS_CA_BUNDLE")
        raise ProviderUnavailableError(f"{what}: {fault.what}", hint=fault.hint) from error
