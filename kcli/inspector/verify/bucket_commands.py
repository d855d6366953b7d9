"""Shell commands for an object of a bucket: those of each service's own tool, by the object's URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import join

_REMOVE = {"s3": ("aws", "s3", "rm"), "gs": ("gcloud", "storage", "rm")}
_SHOW = {"s3": ("aws", "s3", "ls"), "gs": ("gcloud", "storage", "ls", "-l")}


def is_url(path: object) -> bool:
    """Whether this is the URL of an object, not a path."""
    return str(path).startswith(("s3://", "gs://", "az://", "abfs://"))


def remove(urls: Sequence[str]) -> str:
    """The command that removes objects."""
    return " && ".join(_command(_REMOVE, "delete", url) for url in urls)


def show(url: str) -> str:
    """The command that shows an object's size and time."""
    return _command(_SHOW, "show", url)


def _command(tools: Mapping[str, tuple[str, ...]], azure: str, url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme in tools:
        return join([*tools[scheme], url])
    container, _, name = rest.partition("/")
    container, _, host = container.partition("@")
    account = ("--account-name", host.partition(".")[0]) if host else ()
    return join(["az", "storage", "blob", azure, *account, "--container-name", container, "--name", name])
