"""Google's own description of the JSON API, to hold requests and answers against."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import googleapiclient

from tests.servers.gcs.answers import Answer
from tests.servers.gcs.api import Request

_STANDARD = {"alt", "fields", "key", "prettyPrint", "quotaUser", "userProject", "uploadType"}
_UPLOADS = {"upload_id", "upload_protocol"}
_TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}


@cache
def description() -> dict[str, Any]:
    """`storage.v1.json`, as google-api-python-client carries it."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    parsed: dict[str, Any] = json.loads((folder / "storage.v1.json").read_text())
    return parsed


def problems(request: Request, answer: Answer) -> list[str]:
    """Return how this exchange differs from the description; empty when it does not."""
    method = _method(request)
    if method is None:
        return [f"{request.method} {request.path}: no such method"]
    known = {name for name, p in method.get("parameters", {}).items() if p["location"] == "query"}
    found = [
        f"{method['id']}: unknown parameter {name!r}"
        for name in request.query.keys() - known - _STANDARD - _UPLOADS
    ]
    if answer.status >= 400 and not request.media and answer.status != 499:
        return found + _error_problems(answer)
    if answer.status == 200 and answer.body and not request.media and "response" in method:
        schema = method["response"]["$ref"]
        return found + _value_problems(schema, {"$ref": schema}, json.loads(answer.body))
    if answer.status == 204 and "response" in method:
        found.append(f"{method['id']}: answered nothing instead of {method['response']}")
    return found


def request_problems(
    verb: str, path: str, query: dict[str, str], body: dict[str, Any] | None
) -> list[str]:
    """Return how this request differs from the description; empty when it does not."""
    method = _method_of(verb, path)
    if method is None:
        return [f"{verb} {path}: no such method"]
    known = {name for name, p in method.get("parameters", {}).items() if p["location"] == "query"}
    found = [f"{method['id']}: unknown parameter {name!r}" for name in query.keys() - known]
    if ("request" in method) != (body is not None):
        return [*found, f"{method['id']}: a body is {'missing' if body is None else 'too much'}"]
    if body is None:
        return found
    schema = method["request"]["$ref"]
    return found + _value_problems(schema, {"$ref": schema}, body)


def _method(request: Request) -> dict[str, Any] | None:
    return _method_of(request.method, request.path)


def _method_of(verb: str, path: str) -> dict[str, Any] | None:
    for method in _methods(description()):
        uploads = method.get("mediaUpload", {}).get("protocols", {})
        paths = [f"/storage/v1/{method['path']}", f"/download/storage/v1/{method['path']}"]
        paths += [protocol["path"] for protocol in uploads.values()]
        patterns = [re.sub(r"\{\w+\}", "[^/]+", path) for path in paths]
        verbs = {method["httpMethod"]} | ({"PUT", "DELETE"} if uploads else set())
        if verb in verbs and any(re.fullmatch(p, path) for p in patterns):
            return method
    return None


def _methods(node: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(node.get("methods", {}).values())
    for resource in node.get("resources", {}).values():
        found += _methods(resource)
    return found


def _error_problems(answer: Answer) -> list[str]:
    error = json.loads(answer.body)["error"]
    wrong = [f"error without {name}" for name in ("code", "message", "errors") if name not in error]
    if error["code"] != answer.status:
        wrong.append(f"error code {error['code']} under status {answer.status}")
    for one in error["errors"]:
        missing = {"domain", "reason", "message"} - one.keys()
        wrong += [f"error detail without {name}" for name in missing]
    return wrong


def _value_problems(path: str, schema: dict[str, Any], value: Any) -> list[str]:
    if "$ref" in schema:
        schema = description()["schemas"][schema["$ref"]]
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]):
        return [f"{path}: {value!r} is no {kind}"]
    if schema.get("format") in ("int64", "uint64") and not re.fullmatch(r"-?\d+", str(value)):
        return [f"{path}: {value!r} is no {schema['format']}"]
    if schema.get("format") == "date-time" and not re.fullmatch(r"[-\dT:.]+Z", value):
        return [f"{path}: {value!r} is no time"]
    if kind == "array":
        return [p for v in value for p in _value_problems(f"{path}[]", schema["items"], v)]
    if kind != "object":
        return []
    found = []
    for name, inner in value.items():
        known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if known is None:
            found.append(f"{path}.{name}: not in the description")
        else:
            found += _value_problems(f"{path}.{name}", known, inner)
    return found
