"""Verification of AWS signatures (Signature Version 4), written from its specification, as a service does it."""

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote, unquote

#: Validity of a signature, s.
_VALID = 300
_FORM = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class AwsKey:
    """An access key, with the session token of a temporary key."""

    id: str
    secret: str
    token: str | None = None


def signature(
    key: AwsKey,
    scope: tuple[str, str, str],
    line: tuple[str, str],
    headers: Mapping[str, str],
    signed: str,
    digest: str,
) -> str:
    """Return the signature of a request.

    `scope`: day, region, service. `line`: method, path with query. `digest`: hexadecimal SHA-256 of the body.
    """
    path, _, query = line[1].partition("?")
    pairs = [part.partition("=")[::2] for part in query.split("&") if part]
    parameters = sorted((_encode(unquote(name)), _encode(unquote(value))) for name, value in pairs)
    names = signed.split(";")
    canonical = "\n".join(
        [
            line[0],
            quote(path, safe="/-_.~"),
            "&".join(f"{name}={value}" for name, value in parameters),
            *(f"{name}:{' '.join(headers[name].split())}" for name in names),
            "",
            signed,
            digest,
        ]
    )
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            headers["x-amz-date"],
            f"{'/'.join(scope)}/aws4_request",
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    signing = f"AWS4{key.secret}".encode()
    for part in (*scope, "aws4_request"):
        signing = hmac.new(signing, part.encode(), "sha256").digest()
    return hmac.new(signing, text.encode(), "sha256").hexdigest()


def verifier(
    keys: Callable[[], Mapping[str, AwsKey]], service: str, region: str, now: Callable[[], float] = time.time
) -> Callable[[BaseHTTPRequestHandler, bytes], tuple[int, Any] | None]:
    """Return a function that returns None for a request with a valid signature, and otherwise AWS's answer."""

    def refusal(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any] | None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        if "authorization" not in headers:
            return 403, {"Message": "User: anonymous is not authorized to perform: es:ESHttpGet"}
        form = _FORM.fullmatch(headers["authorization"])
        if form is None:
            return 403, {"message": f"Authorization header requires 'Signature' parameter: {headers['authorization']}"}
        digest = hashlib.sha256(body).hexdigest()
        key = keys().get(form["key"])
        if key is None:
            return 403, {"message": "The security token included in the request is invalid."}
        if headers.get("x-amz-security-token") != key.token:
            return 403, {"message": "The security token included in the request is expired"}
        if (form["region"], form["service"]) != (region, service):
            return 403, {"message": f"Credential should be scoped to a valid region, not '{form['region']}'. "}
        sent = calendar.timegm(time.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
        if abs(sent - now()) > _VALID:
            limit = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now() - _VALID))
            return 403, {"message": f"Signature expired: {headers['x-amz-date']} is now earlier than {limit}"}
        signed = form["signed"].split(";")
        required = {"host", *(name for name in headers if name.startswith("x-amz-") or name == "content-type")}
        scope = (form["day"], region, service)
        line = (request.command, request.path)
        valid = (
            required <= set(signed)
            and "content-length" not in signed
            and headers["x-amz-content-sha256"] == digest
            and form["day"] == headers["x-amz-date"][:8]
            and signature(key, scope, line, headers, form["signed"], digest) == form["signature"]
        )
        if valid:
            return None
        canonical = f"x-amz-security-token:{key.token}"
        return 403, {
            "message": "The request signature we calculated does not match the signature you provided. Check your AWS "
            "Secret Access Key and signing method. Consult the service documentation for details.\n\nThe Canonical "
            f"String for this request should have been\n'{canonical}'"
        }

    return refusal


def _encode(text: str) -> str:
    return quote(text, safe="-_.~")
