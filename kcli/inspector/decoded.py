"""The decoded form of internal topics' records and of control records, as JSON text."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from formats import control_record, internal_topic
from formats.errors import FormatError

DecodedJson = Callable[[int, bytes | None, bytes | None, bool], str]


def decoder_of(topic: str) -> str | None:
    """The name of the kafka-dump-log decoder (as in --NAME-decoder) that fits a topic; None for a user's topic."""
    return _DECODERS.get(topic)


_DECODERS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transaction-log",
    "__share_group_state": "share-group-state",
    "__remote_log_metadata": "remote-log-metadata",
    "__cluster_metadata": "cluster-metadata",
}


def decoded_json(topic: str) -> DecodedJson:
    """A function (offset, key, value, is_control) -> JSON text of the decoded record of that internal topic.

    A record that does not decode gives {"error": reason}.
    """

    def decode(_offset: int, key: bytes | None, value: bytes | None, is_control: bool) -> str:  # noqa: FBT001
        try:
            tree = _control(key, value) if is_control else _record(topic, key, value)
        except FormatError as error:
            tree = {"error": str(error)}
        return json.dumps(tree, ensure_ascii=False, separators=(",", ":"), default=_base64)

    return decode


def _control(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    record = control_record.parse(key, value)
    return {"control_type": record.type.name, "version": record.version, "value": record.value}


def _record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    tree = asdict(internal_topic.decode(topic, key, value))
    for rest in ("key_rest", "value_rest"):
        if not tree[rest]:
            del tree[rest]
    return tree


def _base64(value: object) -> dict[str, str]:
    assert isinstance(value, bytes)
    return {"base64": b64encode(value).decode()}
