"""The configurations that a command applies: from the options -o, the metadata log and the option --config.

A value of a topic's configuration is taken from the first source that has it: -o, the topic in the metadata log, the
brokers in the metadata log, server.properties (--config), Kafka's defaults. The metadata log is that in
`metadata.log.dir`, else in the log directory, else in another one of `log.dirs`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.cli.options import pairs
from kcli.errors import UnreadableInput, UsageError
from kcli.log.config import BROKER_NAMES, TOPIC_CONFIGS, InvalidConfig, LogConfig
from kcli.log.log_directory import holds_segments, read_properties
from kcli.log.producer_state import DEFAULT_EXPIRATION_MS
from kcli.log.recovery.node_directories import log_directories_of

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage

EXPIRATION = "producer.id.expiration.ms"


class Settings:
    """The configurations for a log directory, or for a partition's directory in one.

    server: the entries of --config. broker: the broker's configuration, from all sources. metadata_error: why the
    metadata log could not be read as a whole; topics then have the configurations in its readable records.
    Raises UsageError, InvalidConfig, UnreadableInput.
    """

    def __init__(self, directory: Path, config: Path | None, options: Sequence[str]) -> None:
        self.server = server = {} if config is None else dict(read_properties(config))
        home = directory.absolute().parent if holds_segments(directory) else directory
        meta = home / FileKind.META_PROPERTIES
        is_missing = meta.is_dir() or not meta.exists()  # Kafka has no use for a directory of that name either
        self.metadata_error: UnreadableInput | None = None
        self._image, dynamic = None, {}
        try:
            node = server.get("node.id") or ("" if is_missing else read_properties(meta).get("node.id", ""))
            self._image, self.metadata_error = _image(_metadata_log_dir(home, server))
            if self._image is not None:
                dynamic = self._image.broker_configs(int(node) if node.isascii() and node.isdecimal() else None)
        except UnreadableInput as error:
            self.metadata_error = error
        self._own, broker = _split(options)
        self.broker = {**server, **dynamic, **broker}

    @property
    def source_of_topics(self) -> str:
        """The source of topics' configurations, in words, for a note about a `metadata_error`."""
        return "Kafka's defaults have" if self._image is None else "the readable part of the metadata log has"

    @property
    def producer_expiration_ms(self) -> int:
        """The time, in ms, after which the state of a producer without further batches expires
        (producer.id.expiration.ms). Raises InvalidConfig."""
        text = self.broker.get(EXPIRATION, str(DEFAULT_EXPIRATION_MS))
        if not re.fullmatch(r"[1-9][0-9]{0,9}", text):
            raise InvalidConfig(f"{EXPIRATION}: {text!r} is not a number of milliseconds above 0")
        return int(text)

    def log_config(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's log, from all sources. Raises InvalidConfig."""
        known = {} if self._image is None else self._image.topic_configs(topic)
        return LogConfig({**known, **self._own}, self.broker)


def _split(options: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return two dicts of the options -o: the configurations of topics, and those of the broker. Raises UsageError,
    InvalidConfig."""
    topic: dict[str, str] = {}
    broker: dict[str, str] = {}
    for name, value in pairs(options, "-o").items():
        if name not in TOPIC_CONFIGS and name not in (*BROKER_NAMES, EXPIRATION):
            raise UsageError(f"-o {name}: no configuration of a topic or of a broker's logs has that name")
        if name in TOPIC_CONFIGS:
            TOPIC_CONFIGS[name].parse(name, value)
        (topic if name in TOPIC_CONFIGS else broker)[name] = value
    return topic, broker


def _metadata_log_dir(home: Path, server: Mapping[str, str]) -> Path:
    """Return the log directory that has the metadata log: metadata.log.dir. If that is not set, return `home` if it has
    a metadata log, else the first of log.dirs that has one, else `home`.

    home: the log directory that the command is given.
    """
    if "metadata.log.dir" in server:
        return Path(server["metadata.log.dir"])
    others = [] if (home / METADATA_DIRECTORY).is_dir() else log_directories_of(server)
    return next((each for each in others if (each / METADATA_DIRECTORY).is_dir()), home)


def _image(log_directory: Path) -> tuple[MetadataImage | None, UnreadableInput | None]:
    """Return the image of a log directory's metadata log, and the first damage in that log (None without damage). For a
    damaged log, the image is that of the records that can be read. Both are None if there is no metadata log. Raises
    UnreadableInput."""
    if not (log_directory / METADATA_DIRECTORY).is_dir():
        return None, None  # without a metadata log the slow import is not needed
    from kcli.inspector.cluster_metadata import read_image, read_image_around_damage

    try:
        return read_image(log_directory), None
    except UnreadableInput as error:
        return read_image_around_damage(log_directory), error
