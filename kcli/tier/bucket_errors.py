"""Why a request to a bucket failed, in one line.

obstore's errors are text: a sentence with the request's URL and the server's answer, and the error's parts as Rust
shows them. A URL may have a signature in it and an answer may have anything, hence only what this module knows gets
through: the kind of error, the server's code for it, the HTTP status, the host. Sources: object_store's RetryError and
HttpErrorKind; the error codes of S3, Google Cloud Storage and Azure.
"""

from __future__ import annotations

import re

CHECK_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the machine's role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the machine's service account",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or the machine's identity",
}
CHECK_ENDPOINT = {"s3": "AWS_ENDPOINT_URL, AWS_REGION", "gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_STATUS = re.compile(r"\bstatus(?: code)?: ([1-5]\d\d)\b")
_ILLEGAL = re.compile(r'illegal: "([^"]{1,20})"')
_HOST = re.compile(r"https?://(?:[^/@\s]*@)?([\w.:\[\]-]+)")
_NO_BUCKET = ("NoSuchBucket", "InvalidBucketName", "ContainerNotFound", "InvalidResourceName")
_BAD_CREDENTIALS = (
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired",
    "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "InvalidSecurity",
)  # fmt: skip
_CONNECTION = (
    ("ConnectionRefused", "connection refused"),
    ("dns error", "the host's name is not known"),
    ("NetworkUnreachable", "no route to the network"),
    ("HostUnreachable", "no route to the host"),
    ("certificate", "its certificate is not trusted"),
)
_UNREACHED = ("ConnectionRefused", "dns error", "NetworkUnreachable", "HostUnreachable")
_ANSWERS = (
    (re.compile(r"kind: Timeout|TimedOut"), "does not answer in time"),
    (re.compile(r"IncompleteMessage|IncompleteBody|UnexpectedEof|Interrupted|ConnectionReset|ConnectionAborted"),
     "cuts the connection"),
    (re.compile(r"UnexpectedRange|NotPartial"), "returns other bytes than those asked for"),
    (re.compile(r"BareRedirect"), "has the bucket in another region"),
)  # fmt: skip


def is_empty_object(error: BaseException) -> bool:
    """Whether the request failed because an empty object has no range of bytes (HTTP 416)."""
    return _status(_text(error)) == 416


def is_cut_list(error: BaseException) -> bool:
    """Whether the answer to a request for a list broke off."""
    return "list response body" in _text(error)


def is_missing_bucket(error: BaseException) -> bool:
    """Whether the error means that the bucket does not exist. If the request names an object, obstore raises
    FileNotFoundError for a missing bucket as well as for a missing object."""
    return _code(_text(error)) in _NO_BUCKET


def is_passing(error: BaseException) -> bool:
    """Whether the server may answer later: it is not reached, does not answer in time, or is overloaded."""
    text = _text(error)
    status = _status(text)
    if status is not None:
        return status >= 500 or status == 429
    return any(word in text for word in _UNREACHED) or any(pattern.search(text) for pattern, _ in _ANSWERS[:2])


def is_of_one_object(error: BaseException) -> bool:
    """Whether the error is about one object, rather than the network, the server or the credentials: other objects may
    be readable."""
    text = _text(error)
    return _is_archived(text) or _has_changed(error, text) or "UnexpectedRange" in text


def reason(service: str, error: BaseException) -> str:
    """Return why a request failed, and what to check. service: as in the bucket's address."""
    text = _text(error)
    code, status = _code(text), _status(text)
    found = _HOST.search(text)
    server = f"the server {found[1]}" if found else "the server"
    name = code or (f"HTTP {status}" if status else "")
    told = f" ({name})" if name else ""
    if code in _NO_BUCKET:
        return f"no such bucket{told}; check its name, {CHECK_ENDPOINT[service]}"
    if code in _BAD_CREDENTIALS or status == 401:
        return f"the credentials are not valid{told}; check {CHECK_CREDENTIALS[service]}"
    if "token request" in text or ("credential" in text.lower() and status is None and "kind: " not in text):
        return f"no credentials are found; check {CHECK_CREDENTIALS[service]}"
    if _is_archived(text):
        return f"the object is archived{told}: restore it first"
    if status == 403:
        return f"access denied{told}; check what {CHECK_CREDENTIALS[service]} may list, read and write"
    if status == 404:
        return f"not found{told}; check the bucket's name, {CHECK_ENDPOINT[service]}"
    if _has_changed(error, text):
        return "the object changed while it was read; read it again"
    if status is not None:
        again = "; it may be overloaded: try again later" if status >= 500 or status == 429 else ""
        return f"{server} answers HTTP {status}{f' {code}' if code else ''}{again}"
    for word, what in _CONNECTION:
        if word in text:
            return f"cannot connect to {server}: {what}; check {CHECK_ENDPOINT[service]} and the network"
    for pattern, what in _ANSWERS:
        if pattern.search(text):
            return f"{server} {what}; check {CHECK_ENDPOINT[service]} and the network"
    return _otherwise(service, error, text, server)


def no_store(service: str, server: str = "the server") -> str:
    """Return the error text for a server that is no store of this service. server: the server in words, with its name
    if that is known."""
    return f"{server} does not answer as such a store does; check {CHECK_ENDPOINT[service]}"


def _otherwise(service: str, error: BaseException, text: str, server: str) -> str:
    if "Account must be specified" in text:
        return "the account is not known; set AZURE_STORAGE_ACCOUNT_NAME"
    if type(error).__name__ == "InvalidPathError" or "invalid path" in text:
        found = _ILLEGAL.search(text)
        what = "an empty part" if found is None else f"the part '{found[1]}'" if "." in found[1] else f"'{found[1]}'"
        return f"an object's name there has {what}, and kcli cannot list it: move such objects away"
    if "invalid list response" in text or "Parse(" in text:
        return no_store(service, server)
    if "builder error" in text or "Unable to parse" in text or "Configuration" in text:
        return f"the environment's settings are not valid; check {CHECK_ENDPOINT[service]}"
    return f"the request failed ({type(error).__name__}); check {CHECK_ENDPOINT[service]} and the network"


def _is_archived(text: str) -> bool:
    return _code(text) in ("InvalidObjectState", "BlobArchived")


def _has_changed(error: BaseException, text: str) -> bool:
    return _status(text) == 412 or type(error).__name__ == "PreconditionError"


def _text(error: BaseException) -> str:
    return str(error)[:20_000]


def _code(text: str) -> str | None:
    found = _CODE.search(text)
    return found[1] if found else None


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None
