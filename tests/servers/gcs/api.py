"""The methods of the JSON API: from a request to a response, under one lock."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

from tests.servers.gcs.answers import (
    Answer,
    ApiError,
    bucket_resource,
    condition_not_met,
    invalid,
    no_such_bucket,
    no_such_object,
    not_modified,
    object_resource,
    too_many_mutations,
)
from tests.servers.gcs.storage import Blob, Bucket, Ticks, crc32c

_SETTABLE = frozenset(
    {
        "cacheControl",
        "contentDisposition",
        "contentEncoding",
        "contentLanguage",
        "contentType",
        "customTime",
        "metadata",
    }
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request with its path split."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    host: str

    @property
    def media(self) -> bool:
        """Whether the request is for data, not for a resource."""
        return self.query.get("alt") == "media"

    def number(self, name: str) -> int | None:
        """Return an int64 parameter; None when absent."""
        text = self.query.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"-?\d+", text):
            raise invalid(f"Invalid value '{text}'.", reason="invalidParameter", location=name)
        return int(text)


@dataclass
class Upload:
    """A resumable upload in progress."""

    request: Request
    name: str
    fields: dict[str, Any]
    given: Mapping[str, Any]
    data: bytearray = field(default_factory=bytearray)


class Api:
    """
    Every method, on one state.

    Args:
        mutation_pause_s: The minimum time between two writes of one object; an earlier write gets
            429.
    """

    def __init__(self, *, mutation_pause_s: float = 0.0) -> None:
        self._lock = threading.RLock()
        self._ticks = Ticks()
        self._pause_s = mutation_pause_s
        self._uploads: dict[str, Upload] = {}
        self.buckets: dict[str, Bucket] = {}

    def make_bucket(self, name: str) -> Bucket:
        """Create an empty bucket."""
        with self._lock:
            if name in self.buckets:
                raise ApiError(
                    409,
                    "conflict",
                    "Your previous request to create the named bucket succeeded and you already "
                    "own it.",
                )
            self.buckets[name] = Bucket(name=name, created_us=self._ticks.next())
            return self.buckets[name]

    # Buckets.

    def insert_bucket(self, request: Request) -> Answer:
        """`buckets.insert`."""
        if "project" not in request.query:
            raise invalid("Required parameter: project", reason="required", location="project")
        bucket = self.make_bucket(_json(request.body).get("name", ""))
        return Answer.of(bucket_resource(bucket, request.host))

    def list_buckets(self, request: Request) -> Answer:
        """`buckets.list`."""
        prefix = request.query.get("prefix", "")
        with self._lock:
            found = [self.buckets[n] for n in sorted(self.buckets) if n.startswith(prefix)]
        items = [bucket_resource(bucket, request.host) for bucket in found]
        return Answer.of({"kind": "storage#buckets", **({"items": items} if items else {})})

    def get_bucket(self, request: Request, bucket: str) -> Answer:
        """`buckets.get`."""
        return Answer.of(bucket_resource(self._bucket(bucket), request.host))

    def get_layout(self, request: Request, bucket: str) -> Answer:
        """`buckets.getStorageLayout`."""
        layout = {"kind": "storage#storageLayout", "bucket": self._bucket(bucket).name}
        place = {"location": "US", "locationType": "multi-region"}
        return Answer.of({**layout, **place, "hierarchicalNamespace": {"enabled": False}})

    def delete_bucket(self, request: Request, bucket: str) -> Answer:
        """`buckets.delete`."""
        with self._lock:
            if self._bucket(bucket).blobs:
                raise ApiError(409, "conflict", "The bucket you tried to delete is not empty.")
            del self.buckets[bucket]
        return Answer(status=204)

    # Objects.

    def get_object(self, request: Request, bucket: str, name: str) -> Answer:
        """`objects.get`: the resource, or the data with `alt=media`."""
        blob = self._live(request, bucket, name)
        if request.media:
            return _download(blob, request)
        return Answer.of(object_resource(blob, request.host), headers={"ETag": blob.etag})

    def delete_object(self, request: Request, bucket: str, name: str) -> Answer:
        """`objects.delete`."""
        with self._lock:
            self._live(request, bucket, name)
            self._pace(self._bucket(bucket), name)
            self._bucket(bucket).remove(name)
        return Answer(status=204)

    def patch_object(self, request: Request, bucket: str, name: str) -> Answer:
        """`objects.patch`."""
        with self._lock:
            blob = self._live(request, bucket, name)
            changes = {k: v for k, v in _json(request.body).items() if k in _SETTABLE}
            blob = blob.patched(changes, self._ticks.next())
            self._bucket(bucket).put(blob)
        return Answer.of(object_resource(blob, request.host))

    def update_object(self, request: Request, bucket: str, name: str) -> Answer:
        """`objects.update`: fields that are missing from the request are removed."""
        with self._lock:
            blob = self._live(request, bucket, name)
            given = _json(request.body)
            fields = {key: given[key] for key in _SETTABLE if key in given}
            blob = replace(blob.patched({}, self._ticks.next()), fields=fields)
            self._bucket(bucket).put(blob)
        return Answer.of(object_resource(blob, request.host))

    def insert_object(self, request: Request, bucket: str) -> Answer:
        """`objects.insert`: `media`, `multipart` or the beginning of a `resumable` upload."""
        if "upload_id" in request.query:
            return self.continue_upload(request, bucket)
        match request.query.get("uploadType"):
            case "media":
                fields = {"contentType": request.headers.get("content-type")}
                return self._insert(request, bucket, "", fields, {}, request.body)
            case "multipart":
                given, kind, data = _multipart(request)
                fields = {"contentType": given.get("contentType", kind)}
                return self._insert(request, bucket, given.get("name", ""), fields, given, data)
            case "resumable":
                return self._begin_upload(request, bucket)
            case other:
                raise invalid(f"Invalid uploadType: {other}", location="uploadType")

    def compose_object(self, request: Request, bucket: str, name: str) -> Answer:
        """`objects.compose`: up to 32 objects of the bucket, concatenated."""
        asked = _json(request.body)
        sources = asked.get("sourceObjects", [])
        if not 1 <= len(sources) <= 32:
            raise invalid("The number of source components provided must be between 1 and 32.")
        with self._lock:
            found = [self._source(bucket, source) for source in sources]
            return self._put(
                request,
                bucket,
                name,
                fields={k: v for k, v in asked.get("destination", {}).items() if k in _SETTABLE},
                data=b"".join(blob.data for blob in found),
                components=sum(blob.components or 1 for blob in found),
            )

    def copy_object(
        self, request: Request, bucket: str, name: str, to_bucket: str, to_name: str
    ) -> Answer:
        """`objects.copy`."""
        with self._lock:
            source = self._copied(request, bucket, name)
            return self._copy(request, source, to_bucket, to_name)

    def rewrite_object(
        self, request: Request, bucket: str, name: str, to_bucket: str, to_name: str
    ) -> Answer:
        """`objects.rewrite`: always done in one call."""
        with self._lock:
            source = self._copied(request, bucket, name)
            resource = json.loads(self._copy(request, source, to_bucket, to_name).body)
        size = str(len(source.data))
        done = {"kind": "storage#rewriteResponse", "done": True, "objectSize": size}
        return Answer.of({**done, "totalBytesRewritten": size, "resource": resource})

    def list_objects(self, request: Request, bucket: str) -> Answer:
        """`objects.list`: items and prefixes, together at most `maxResults` per page."""
        most = min(request.number("maxResults") or 1000, 1000)
        with self._lock:
            items, prefixes, token = self._page(request, self._bucket(bucket), most)
        page: dict[str, Any] = {"kind": "storage#objects"}
        if token:
            page["nextPageToken"] = token
        if prefixes:
            page["prefixes"] = prefixes
        if items:
            page["items"] = [object_resource(blob, request.host) for blob in items]
        return Answer.of(page)

    def _page(
        self, request: Request, bucket: Bucket, most: int
    ) -> tuple[list[Blob], list[str], str]:
        asked = request.query
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        after = _token_name(asked.get("pageToken", ""))
        start = max(asked.get("startOffset", ""), after)
        items: list[Blob] = []
        prefixes: list[str] = []
        last = ""
        for name in bucket.scan(start, prefix):
            if asked.get("endOffset") and name >= asked["endOffset"]:
                break
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            folder = name[: cut + len(delimiter)] if cut >= 0 else ""
            if after and (name <= after or (folder and after.startswith(folder))):
                continue
            shown = folder == name and asked.get("includeTrailingDelimiter") == "true"
            if folder and folder in prefixes and not shown:
                last = name
                continue
            if len(items) + len(prefixes) >= most:
                return items, prefixes, _token(last)
            if folder and folder not in prefixes:
                prefixes.append(folder)
            if not folder or shown:
                items.append(bucket.blobs[name])
            last = name
        return items, prefixes, ""

    # Resumable uploads.

    def _begin_upload(self, request: Request, bucket: str) -> Answer:
        given = _json(request.body)
        name = request.query.get("name", given.get("name", ""))
        kind = request.headers.get("x-upload-content-type")
        fields = {"contentType": given.get("contentType", kind)}
        with self._lock:
            _check(request, self._bucket(bucket).blobs.get(name))
            number = f"upload-{self._ticks.next()}"
            self._uploads[number] = Upload(request=request, name=name, fields=fields, given=given)
        place = f"{request.host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable"
        where = f"{place}&name={quote(name, safe='')}&upload_id={number}"
        return Answer(headers={"Location": where, "X-GUploader-UploadID": number})

    def continue_upload(self, request: Request, bucket: str) -> Answer:
        """PUT of the next bytes, or of none to query the received size."""
        number = request.query.get("upload_id", "")
        with self._lock:
            upload = self._uploads.get(number)
            if upload is None:
                raise ApiError(404, "notFound", "Not Found")
            if request.method == "DELETE":
                del self._uploads[number]
                return Answer(status=499)
            if not _received(upload, request):
                last = len(upload.data) - 1
                return Answer(status=308, headers={"Range": f"bytes=0-{last}"} if last >= 0 else {})
            answer = self._insert(
                upload.request, bucket, upload.name, upload.fields, upload.given, bytes(upload.data)
            )
            del self._uploads[number]
            return answer

    # Shared by the methods.

    def _bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise no_such_bucket()
        return self.buckets[name]

    def _live(self, request: Request, bucket: str, name: str) -> Blob:
        """Return the live object after checking every condition of `request`."""
        with self._lock:
            blob = self._bucket(bucket).blobs.get(name)
        generation = request.number("generation")
        if blob is None or (generation and generation != blob.generation):
            raise no_such_object(bucket, name)
        _check(request, blob)
        return blob

    def _source(self, bucket: str, source: Mapping[str, Any]) -> Blob:
        blob = self._bucket(bucket).blobs.get(source.get("name", ""))
        generation = int(source.get("generation") or 0)
        if blob is None or (generation and generation != blob.generation):
            raise no_such_object(bucket, source.get("name", ""))
        match = (source.get("objectPreconditions") or {}).get("ifGenerationMatch")
        if match is not None and int(match) != blob.generation:
            raise condition_not_met()
        return blob

    def _copied(self, request: Request, bucket: str, name: str) -> Blob:
        blob = self._bucket(bucket).blobs.get(name)
        generation = request.number("sourceGeneration")
        if blob is None or (generation and generation != blob.generation):
            raise no_such_object(bucket, name)
        _check(request, blob, source="Source")
        return blob

    def _copy(self, request: Request, source: Blob, bucket: str, name: str) -> Answer:
        given = {k: v for k, v in _json(request.body).items() if k in _SETTABLE}
        return self._put(
            request,
            bucket,
            name,
            fields=given or source.fields,
            data=source.data,
            components=source.components,
        )

    def _insert(
        self,
        request: Request,
        bucket: str,
        name: str,
        fields: Mapping[str, Any],
        given: Mapping[str, Any],
        data: bytes,
    ) -> Answer:
        name = request.query.get("name", name)
        if not name or len(name.encode()) > 1024 or "\n" in name or "\r" in name:
            raise invalid("Required" if not name else "Invalid object name", reason="required")
        fields = {**fields, **{k: v for k, v in given.items() if k in _SETTABLE}}
        if "contentEncoding" in request.query:
            fields["contentEncoding"] = request.query["contentEncoding"]
        _verify(data, {**given, **_hashes(request)})
        return self._put(request, bucket, name, fields=fields, data=data)

    def put_empty(self, bucket: str, names: Iterable[str]) -> None:
        """Create many empty objects without requests."""
        with self._lock:
            for name in names:
                now_us = self._ticks.next()
                blob = Blob(
                    bucket=bucket,
                    name=name,
                    data=b"",
                    generation=now_us,
                    created_us=now_us,
                    updated_us=now_us,
                    fields={},
                )
                self._bucket(bucket).put(blob)

    def _put(
        self,
        request: Request,
        bucket: str,
        name: str,
        *,
        fields: Mapping[str, Any],
        data: bytes,
        components: int = 0,
    ) -> Answer:
        with self._lock:
            place = self._bucket(bucket)
            _check(request, place.blobs.get(name))
            self._pace(place, name)
            now_us = self._ticks.next()
            blob = Blob(
                bucket=bucket,
                name=name,
                data=data,
                generation=now_us,
                created_us=now_us,
                updated_us=now_us,
                fields={k: v for k, v in fields.items() if v is not None},
                components=components,
            )
            place.put(blob)
        return Answer.of(object_resource(blob, request.host), headers={"ETag": blob.etag})

    def _pace(self, bucket: Bucket, name: str) -> None:
        now = time.monotonic()
        if self._pause_s and now - bucket.mutated.get(name, -1e9) < self._pause_s:
            raise too_many_mutations(bucket.name, name)
        bucket.mutated[name] = now


def _check(request: Request, blob: Blob | None, *, source: str = "") -> None:
    """Raise 412 or 304 unless every precondition of `request` holds for the live object."""
    generation = blob.generation if blob else 0
    metageneration = blob.metageneration if blob else 0
    for kind, actual in (("Generation", generation), ("Metageneration", metageneration)):
        wanted = request.number(f"if{source}{kind}Match")
        if wanted is not None and wanted != actual:
            raise condition_not_met()
        unwanted = request.number(f"if{source}{kind}NotMatch")
        if unwanted is not None and (unwanted == actual or blob is None):
            raise not_modified()
    if request.method == "GET" and blob is not None:
        if_none_match = request.headers.get("if-none-match", "")
        if blob.etag in if_none_match or if_none_match == "*":
            raise not_modified()
        if_match = request.headers.get("if-match")
        if if_match is not None and blob.etag not in if_match and if_match != "*":
            raise condition_not_met()


def _download(blob: Blob, request: Request) -> Answer:
    headers = {
        "Content-Type": str(blob.fields.get("contentType", "application/octet-stream")),
        "ETag": blob.etag,
        "Last-Modified": formatdate(blob.updated_us // 1_000_000, usegmt=True),
        "X-Goog-Generation": str(blob.generation),
        "X-Goog-Metageneration": str(blob.metageneration),
        "X-Goog-Hash": f"crc32c={crc32c(blob.data)}"
        + ("" if blob.components else f",md5={blob.md5}"),
        "X-Goog-Storage-Class": "STANDARD",
        "X-Goog-Stored-Content-Encoding": str(blob.fields.get("contentEncoding", "identity")),
        "X-Goog-Stored-Content-Length": str(len(blob.data)),
    }
    named = {
        "Content-Encoding": "contentEncoding",
        "Content-Language": "contentLanguage",
        "Content-Disposition": "contentDisposition",
        "Cache-Control": "cacheControl",
    }
    headers |= {k: str(blob.fields[v]) for k, v in named.items() if v in blob.fields}
    if headers.get("Content-Encoding") == "gzip" and "gzip" not in request.headers.get(
        "accept-encoding", ""
    ):
        # Decompressive transcoding: ranges are ignored, and the length is unknown beforehand.
        del headers["Content-Encoding"]
        return Answer(body=gzip.decompress(blob.data), headers=headers)
    size = len(blob.data)
    match _range(request.headers.get("range", ""), size):
        case None:
            return Answer(body=blob.data, headers=headers)
        case (first, end) if first < end:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
            return Answer(status=206, body=blob.data[first:end], headers=headers)
    raise ApiError(
        416,
        "requestedRangeNotSatisfiable",
        "Request range not satisfiable",
        location="Range",
        location_type="header",
        headers={"Content-Range": f"bytes */{size}"},
    )


def _range(header: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the end of a Range header; None for the whole object."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", header)
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    first, end = int(found[1]), int(found[2]) + 1 if found[2] else size
    if found[2] and end <= first:
        return None  # RFC 9110, section 14.1.1: such a range is invalid, and ignored
    return first, min(end, size)


def _received(upload: Upload, request: Request) -> bool:
    """Store the bytes of one PUT; return whether the upload is complete."""
    header = request.headers.get("content-range", "")
    if not header:
        upload.data[:] = request.body
        return True
    found = re.fullmatch(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)", header)
    if found is None:
        raise invalid("Failed to parse Content-Range header.")
    if found[1] is not None:
        first = int(found[1])
        if first > len(upload.data):
            raise ApiError(503, "backendError", "Bytes are missing before this range.")
        upload.data[first:] = request.body
    return found[3] != "*" and len(upload.data) >= int(found[3])


def _multipart(request: Request) -> tuple[dict[str, Any], str | None, bytes]:
    """Return metadata, media type and data of a multipart/related body."""
    parts = split_parts(request.headers.get("content-type", ""), request.body)
    if len(parts) != 2:
        raise invalid("Multipart must have exactly two parts.")
    (_, metadata), (headers, data) = parts
    return _json(metadata), headers.get("content-type"), data


def split_parts(content_type: str, body: bytes) -> list[tuple[dict[str, str], bytes]]:
    """Return the parts of a multipart body, each with its headers in lower case."""
    found = re.search(r"boundary=\"?'?([^\"';]+)", content_type)
    if found is None:
        raise invalid("Missing boundary in multipart body.")
    mark = rb"\r?\n--" + re.escape(found[1].encode())
    parts = []
    # Clients end their lines either way; text before the first boundary and after the last
    # is ignored.
    for chunk in re.split(mark, b"\n" + body)[1:-1]:
        head, data = re.split(rb"\r?\n\r?\n", chunk, maxsplit=1)
        lines = [line.partition(":") for line in head.decode().splitlines() if line]
        parts.append(({name.strip().lower(): text.strip() for name, _, text in lines}, data))
    return parts


def _hashes(request: Request) -> dict[str, str]:
    """Return the hashes of an X-Goog-Hash header."""
    pairs = [
        part.strip().partition("=") for part in request.headers.get("x-goog-hash", "").split(",")
    ]
    names = {"crc32c": "crc32c", "md5": "md5Hash"}
    return {names[kind]: value for kind, _, value in pairs if kind in names}


def _verify(data: bytes, promised: Mapping[str, Any]) -> None:
    probe = Blob(bucket="", name="", data=data, generation=0, created_us=0, updated_us=0, fields={})
    checks: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("md5Hash", "MD5 hash", lambda: probe.md5),
        ("crc32c", "CRC32C", lambda: crc32c(data)),
    )
    for name, title, actual in checks:
        if name in promised and promised[name] != actual():
            raise invalid(
                f'Provided {title} "{promised[name]}" doesn\'t match calculated {title} '
                f'"{actual()}".'
            )


def _json(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body or b"{}")
    except ValueError:
        raise invalid("Parse Error", reason="parseError") from None
    if not isinstance(parsed, dict):
        raise invalid("Parse Error", reason="parseError")
    return parsed


def _token(name: str) -> str:
    return name.encode().hex()


def _token_name(token: str) -> str:
    try:
        return bytes.fromhex(token).decode()
    except ValueError:
        raise invalid(f"Invalid pageToken: {token}", location="pageToken") from None
