"""One call to EC2 by Amazon's client, and what its failures mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.aws.verdicts import verdict


def call(do: Callable[[], Any], what: str, *, but: Iterable[str] = ()) -> Any:
    """
    Return the result of `do`; an error whose code is in `but` counts as an empty answer.

    Args:
        do: Makes one call with a boto3 client.
        what: What is being done, for error messages.
        but: EC2 error codes.

    Raises:
        ProviderError: Depends on EC2's answer; see `verdict`.
    """
    from botocore import exceptions
    from botocore.parsers import ResponseParserError

    try:
        return do()
    except exceptions.ClientError as error:
        fault = error.response.get("Error", {})
        code, text = fault.get("Code", ""), fault.get("Message", "")
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
        raise ProviderUnavailableError(f"{what}: EC2 did not answer: {error!r}") from error
