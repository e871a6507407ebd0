"""
One of Google's APIs, called by Google's own client with the description that it includes.

The client is imported and built at the first call, on the thread of the pool's lane. That takes
half a second, and the metadata server supplies the credentials of a VM. Each call has a deadline.
Only the transport sends a call again, once, if a connection ended without an answer; requests that
create something therefore carry an ID. Each thread has its own connection, because the client's
connections are not thread-safe.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Literal

from bastion.clock import Clock
from bastion.errors import ProviderRefusedError, ProviderUnavailableError
from bastion.provider.gcp.answers import failure_of, without_token
from bastion.provider.gcp.verdicts import Failure, verdict
from bastion.store.network_fault import fault_of

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

CALL_S = 30.0
"""Longest time Google may be silent within one call."""
_LOOK_S = 1.0
"""Between two checks of an operation."""
_MOST_PAGES = 1000
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_VERSIONS = {
    "compute": "v1",
    "tpu": "v2",
    "iam": "v1",
    "cloudresourcemanager": "v1",
    "serviceusage": "v1",
    "storage": "v1",
}
Name = Literal["compute", "tpu", "iam", "cloudresourcemanager", "serviceusage", "storage"]


class Api:
    """
    Calls of one API.

    Args:
        name: Which API.
        project: Whose resources; empty for the project of the credentials.
        clock: Waits between checks of an operation.
        endpoint: Which server is called; empty for Google's, or for the one that
            `CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE` or `..._TPU` names, as in `gcloud`. A server
            without TLS gets no credentials other than `credentials`.
        credentials: Whose calls they are; None for those that this machine or user has.
    """

    def __init__(
        self,
        name: Name,
        *,
        project: str,
        clock: Clock,
        endpoint: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        self._name = name
        self._credentials = credentials
        self._project = project
        self.clock = clock
        self._endpoint = endpoint
        self._opening = threading.Lock()
        self._opened: tuple[Any, Credentials] | None = None
        self._resources: dict[str, Any] = {}
        self._connections = threading.local()

    @property
    def project(self) -> str:
        """The project, by its ID."""
        self.open()
        return self._project

    def open(self) -> Any:
        """
        Return the client's root of the API.

        Raises:
            ProviderRefusedError: The client is not installed, or there are no credentials.
            ProviderUnavailableError: Credentials cannot be looked up now.
        """
        with self._opening:
            if self._opened is None:
                self._opened = self._build()
            return self._opened[0]

    def resource(self, path: str) -> Any:
        """
        Return the methods of a resource, such as `projects.locations.nodes`.

        Each is created once: the client generates some megabytes of code and text for it.

        Raises:
            ProviderError: As for `open`.
        """
        made = self._resources.get(path)
        if made is None:
            made = self.open()
            for name in path.split("."):
                made = getattr(made, name)()
            self._resources[path] = made
        return made

    def call(self, request: Any, what: str) -> Mapping[str, Any]:
        """
        Send `request` and return the answer.

        Args:
            request: Created by a method of a `resource`.
            what: What is being done, for error messages.

        Raises:
            ProviderError: Depends on Google's answer; see `verdict`.
        """
        answer = self.ask(request, what)
        if isinstance(answer, Failure):
            raise verdict(answer, what)
        return answer

    def ask(self, request: Any, what: str) -> Mapping[str, Any] | Failure:
        """Do the same as `call`, but return the failure if it is missing or exists already."""
        import google.auth.exceptions
        import googleapiclient.errors
        import httplib2

        try:
            answer = request.execute(http=self._connection(), num_retries=0)
        except googleapiclient.errors.HttpError as error:
            failure = failure_of(error.resp, error.content)
            if failure.status in (404, 409):
                return failure
            raise verdict(failure, what) from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise without_token(error) from error
        except (httplib2.HttpLib2Error, HTTPException, OSError) as error:
            fault = fault_of(error, request.uri)
            raise ProviderUnavailableError(f"{what}: {fault.what}", hint=fault.hint) from error
        except (ValueError, RecursionError) as error:
            raise ProviderUnavailableError(f"{what}: Google's answer is not JSON") from error
        if not isinstance(answer, dict):
            raise ProviderUnavailableError(
                f"{what}: Google sent an invalid answer: {answer!r:.100}"
            )
        return answer

    def pages(self, method: Any, what: str, **given: Any) -> Iterator[Mapping[str, Any]]:
        """Yield every page of a list; see `call` for what it raises."""
        token = ""
        for _ in range(_MOST_PAGES):
            page = self.call(method(**given, **({"pageToken": token} if token else {})), what)
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return
        raise ProviderUnavailableError(f"{what}: more than {_MOST_PAGES} pages")

    def settle(
        self,
        operation: Mapping[str, Any],
        look: Callable[[], Any],
        what: str,
        *,
        wait_s: float,
    ) -> Mapping[str, Any]:
        """Return an operation once it is done, or its state after `wait_s`; `look` queries it."""
        until = self.clock.monotonic() + wait_s
        while not (operation.get("done") or operation.get("status") == "DONE"):
            if self.clock.monotonic() >= until:
                break  # a list shows the result, or the same request reports it
            self.clock.sleep(_LOOK_S)
            operation = self.call(look(), what)
        return operation

    def _build(self) -> tuple[Any, Credentials]:
        try:
            import google.auth
            import google.auth.credentials
            import google.auth.exceptions
            import google_auth_httplib2  # noqa: F401 - whether it is installed
            import googleapiclient.discovery  # noqa: F401 - whether it is installed
        except ImportError as error:
            raise ProviderRefusedError(
                f"Google's machines need packages that are not installed: {error.name}",
                hint="run: pip install 'bastion-orchestrator[gce]' where the bastion runs",
            ) from error
        variable = f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{self._name.upper()}"
        endpoint = self._endpoint or os.environ.get(variable, "")
        if self._credentials is not None:
            credentials = self._credentials
        elif endpoint.startswith("http://"):
            credentials = google.auth.credentials.AnonymousCredentials()
        else:
            try:
                credentials, project = google.auth.default(scopes=[_SCOPE])
            except google.auth.exceptions.GoogleAuthError as error:
                raise without_token(error) from error
            self._project = self._project or project or ""
        if not self._project:
            raise ProviderRefusedError(
                "the credentials of Google name no project",
                hint="say options.project of the pool",
            )
        return _service(self._name, endpoint), credentials

    def _connection(self) -> Any:
        """Return this thread's own connections."""
        import google_auth_httplib2
        import httplib2

        assert self._opened is not None
        if not hasattr(self._connections, "http"):
            self._connections.http = google_auth_httplib2.AuthorizedHttp(
                self._opened[1], http=httplib2.Http(timeout=CALL_S)
            )
        return self._connections.http


@cache
def _service(name: str, endpoint: str) -> Any:
    """Return the client's root of an API; pools share it, because it takes ten megabytes."""
    import httplib2
    from googleapiclient.discovery import build

    return build(
        name,
        _VERSIONS[name],
        http=httplib2.Http(),
        client_options={"api_endpoint": endpoint} if endpoint else None,
        static_discovery=True,
        cache_discovery=False,
    )
