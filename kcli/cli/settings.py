"""Configurations that a command works with: the directory's metadata log, --config, -o.

A topic has its own configuration in the metadata log, over what is set for brokers there, over server.properties, over
Kafka's defaults; -o comes before all of them. The metadata log is that of the directory, or of `metadata.log.dir`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.cli.options import pairs
from kcli.errors import UnreadableInput, UsageError
from kcli.log.config import BROKER_NAMES, TOPIC_CONFIGS, InvalidConfig, LogConfig
from kcli.log.log_directory import holds_segments, read_properties
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage

EXPIRATION = "producer.id.expiration.ms"


class Settings:
    """What --config and -o say of a log directory or of a partition's in one. `server`: the entries of --config;
    `broker`: the broker's properties.

    metadata_error: why the metadata log could not be read; topics then have no configuration of their own.
    Raises UsageError, InvalidConfig, UnreadableInput.
    """

    def __init__(self, directory: Path, config: Path | None, options: Sequence[str]) -> None:
        self.server = server = {} if config is None else dict(read_properties(config))
        home = directory.absolute().parent if holds_segments(directory) else directory
        meta = home / FileKind.META_PROPERTIES
        self.metadata_error: UnreadableInput | None = None
        self._image, dynamic = None, {}
        try:
            node = server.get("node.id") or (read_properties(meta).get("node.id", "") if meta.exists() else "")
            self._image = _image(Path(server.get("metadata.log.dir", str(home))))
            if self._image is not None:
                dynamic = self._image.broker_configs(int(node) if node.isascii() and node.isdecimal() else None)
        except UnreadableInput as error:
            self.metadata_error = error
        self._own, broker = _split(options)
        self.broker = {**server, **dynamic, **broker}

    @property
    def producer_expiration_ms(self) -> int:
        """After how long a silent producer is forgotten. Raises InvalidConfig."""
        text = self.broker.get(EXPIRATION, str(DEFAULT_EXPIRATION_MS))
        if not re.fullmatch(r"[1-9][0-9]{0,9}", text):
            raise InvalidConfig(f"{EXPIRATION}: {text!r} is not a number of milliseconds above 0")
        return int(text)

    def log_config(self, topic: str) -> LogConfig:
        """The configuration of a topic's log. Raises InvalidConfig."""
        known = {} if self._image is None else self._image.topic_configs(topic)
        return LogConfig({**known, **self._own}, self.broker)


def _split(options: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """What -o says of topics, and of the broker."""
    topic: dict[str, str] = {}
    broker: dict[str, str] = {}
    for name, value in pairs(options, "-o").items():
        if name not in TOPIC_CONFIGS and name not in (*BROKER_NAMES, EXPIRATION):
            raise UsageError(f"-o {name}: no configuration of a topic or of a broker's logs has that name")
        if name in TOPIC_CONFIGS:
            TOPIC_CONFIGS[name].parse(name, value)
        (topic if name in TOPIC_CONFIGS else broker)[name] = value
    return topic, broker


def _image(log_directory: Path) -> MetadataImage | None:
    if not (log_directory / METADATA_DIRECTORY).is_dir():
        return None  # most partitions that are looked at alone: what reads metadata need not be loaded
    from kcli.inspector.cluster_metadata import read_image

    return read_image(log_directory)
