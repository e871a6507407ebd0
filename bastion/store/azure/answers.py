"""
What Azure Blob Storage returns: error codes, and the pages of a list.

Source: Blob service REST API, "Status and error codes" and "List Blobs".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from bastion.errors import StoreRefusedError
from bastion.store.exchange import Answer
from bastion.store.port import Version
from bastion.value import value

ABSENT = "BlobNotFound"
_NO_ETAG = '""'


@value
class Blob:
    """One blob in a list."""

    name: str
    version: Version
    size: int
    """Bytes."""
    modified_at: float
    """Seconds since 1970 on Azure's clock."""


@value
class Page:
    """One answer to a list."""

    blobs: tuple[Blob, ...]
    marker: str
    """Where the next page starts; empty if this is the last one."""


def page_of(answer: Answer) -> Page:
    """
    Return the blobs of one answer to a list.

    Raises:
        StoreRefusedError: The account has a hierarchical namespace. Its lists are sorted by
            folder, and contain the folders.
        ValueError: It is not a list.
    """
    root = _xml(answer)
    if root.tag != "EnumerationResults" or root.find("Blobs") is None:
        raise ValueError(f"not a list but {root.tag!r}")
    return Page(blobs=tuple(_blobs(root)), marker=root.findtext("NextMarker") or "")


def _blobs(root: Element) -> Iterator[Blob]:
    for item in root.iterfind("Blobs/Blob"):
        if item.find("Properties/ResourceType") is not None:
            raise StoreRefusedError(
                "the storage account has a hierarchical namespace, so its lists are not sorted by"
                " name",
                hint="use an account without one: az storage account create --hns=false",
            )
        name = _text(item, "Name")
        if item.find("Name[@Encoded='true']") is not None:
            name = unquote(name)
        yield Blob(
            name=name,
            version=version_of(f'"{_text(item, "Properties/Etag")}"'),
            size=int(_text(item, "Properties/Content-Length")),
            modified_at=seconds_of(_text(item, "Properties/Last-Modified")),
        )


def _text(item: Element, path: str) -> str:
    found = item.findtext(path)
    if found is None:
        raise ValueError(f"a blob without {path}")
    return found


def version_of(etag: str) -> Version:
    """
    Return an ETag with quotes as a version.

    The answer to a put has only headers, and if the connection breaks within them they look
    complete. Only the closing quote shows that the tag is complete.

    Raises:
        ValueError: It has no quotes, or is empty.
    """
    if len(etag) <= len(_NO_ETAG) or etag[0] != '"' or etag[-1] != '"':
        raise ValueError(f"ETag {etag!r} is not whole")
    return Version(etag)


def seconds_of(date: str) -> float:
    """Return the time of a header such as `Last-Modified`, in seconds since 1970."""
    return parsedate_to_datetime(date).timestamp()


def code_of(answer: Answer) -> str:
    """Return Azure's error code; empty if the answer does not come from Azure."""
    return answer.headers.get("x-ms-error-code") or _of_error(answer, "Code")


def text_of(answer: Answer) -> str:
    """Return the error message in one line, without the number and the time of the request."""
    said = _of_error(answer, "Message") or answer.body[:300].decode(errors="replace")
    return " ".join(said.partition("RequestId:")[0].split())


def detail_of(answer: Answer) -> str:
    """Return why a signature was rejected, as far as Azure says."""
    return _of_error(answer, "AuthenticationErrorDetail")


def _of_error(answer: Answer, name: str) -> str:
    with suppress(ValueError):
        return (_xml(answer).findtext(name) or "").strip()
    return ""


def _xml(answer: Answer) -> Element:
    try:
        return ElementTree.fromstring(answer.body)  # noqa: S314 - a store holds all state: trusted
    except ElementTree.ParseError as error:
        raise ValueError(f"no XML: {error}") from error
