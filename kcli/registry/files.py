"""Reads the files of `_schemas`, without a registry and without a broker.

    log directories -> partition 0 of `_schemas` -> image -> the REST API's own answers

All records count, whether they are committed or not, as the files do not show which records are committed. Damaged
bytes are skipped and reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.inspector.partition_paths import PartitionPaths
from kcli.log.coordinator_records import read_records
from kcli.registry.api import Change, Limits, Request, handle
from kcli.registry.image import Image
from kcli.registry.messages import V1_JSON
from kcli.schema_client.errors import RegistryError
from kcli.schema_client.registry import KnownRegistry

TOPIC = "_schemas"
RESULTS_MAX = 2**31 - 1
"""The greatest number of entries in a listing: practically unlimited, as no other client waits."""

Warn = Callable[[str], None]


def image_of(directories: Iterable[Path], warn: Warn) -> Image:
    """Return the image that the records of `_schemas` in log directories make. warn: called with a line for damage, and
    for a record that no registry understands. Raises UnreadableInput if no directory has `_schemas`, or if it cannot be
    read."""
    paths = list(directories)
    found = PartitionPaths.of(paths).of_topic(TOPIC)
    if 0 not in found:
        raise UnreadableInput(", ".join(map(str, paths)), f"no partition 0 of {TOPIC} in it")
    image = Image()
    for _, record in read_records(found[0], lambda damage: warn(f"kcli: {damage}")):
        if record.marker is None and record.key is not None:
            image.replay(record.key, record.value, record.offset, record.timestamp_ms)
    for skipped in image.skipped:
        warn(f"kcli: {found[0]}: offset {skipped.offset}: {skipped.reason}")
    return image


class ImageTransport:
    """Answers requests from an image; refuses requests that would change it."""

    def __init__(self, image: Image, name: str) -> None:
        self.name = name
        self._image = image

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer. Raises RegistryError, and UsageError for a change."""
        where, _, query = path.partition("?")
        data = b"" if body is None else json.dumps(body).encode()
        limits = Limits(results_max=RESULTS_MAX)
        answer = handle(self._image, Request(method, where, query, {"content-type": V1_JSON}, data), limits)
        if isinstance(answer, Change):
            raise UsageError(f"{self.name}: files are only read: give --registry to change something")
        found = json.loads(answer.body)
        if answer.status >= 300:
            code, reason = found.get("error_code", 0), str(found.get("message", ""))
            raise RegistryError(f"{self.name}{where} answers {answer.status} {reason}", answer.status, code, reason)
        return found


def transport_of(directories: Iterable[Path], warn: Warn) -> ImageTransport:
    """Return a transport that answers from the files of log directories. Arguments and errors are those of
    `image_of`."""
    paths = list(directories)
    return ImageTransport(image_of(paths, warn), ", ".join(map(str, paths)))


def registry_of(directories: Iterable[Path], warn: Warn) -> KnownRegistry:
    """Return the schemas in the files of log directories, including softly deleted ones. It can be pickled. warn: see
    `image_of`. Raises UnreadableInput."""
    return schemas_of(transport_of(directories, warn))


def schemas_of(transport: ImageTransport) -> KnownRegistry:
    """Return the schemas of an image, including softly deleted ones. Raises KcliError if the image has an invalid
    schema."""
    answers = transport.request("GET", "/schemas?deleted=true&subjectPrefix=:*:")
    try:
        return KnownRegistry(transport.name, answers)
    except ValueError as error:
        raise KcliError(f"{transport.name}: {error}") from None
