"""The decoded form of internal topics' records and of control records, as JSON text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formats import control_record, internal_topic
from formats.errors import FormatError
from formats.java_text import jackson
from formats.message import to_json
from kcli.printable import printable_json

DecodedJson = Callable[[int, bytes | None, bytes | None, bool], str | None]


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
    """Return a function (offset, key, value, is_control) that returns a record of an internal topic, decoded, as JSON
    text.

    A record that cannot be decoded becomes {"error": reason}.
    """

    def decode(_offset: int, key: bytes | None, value: bytes | None, is_control: bool) -> str:
        try:
            tree = (
                _control(key, value) if is_control else internal_topic.to_json(internal_topic.decode(topic, key, value))
            )
        except FormatError as error:
            tree = {"error": str(error)}
        return printable_json(jackson(tree))

    return decode


def _control(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    record = control_record.parse(key, value)
    name = control_record.MESSAGES[record.type]
    return {
        "control_type": record.type.name,
        "version": record.version,
        "value": to_json(name, 0 if record.type.is_marker else record.version, record.value),
    }
