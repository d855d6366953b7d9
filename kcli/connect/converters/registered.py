"""What converters with a schema registry share: a key or value is magic 0, the id of its schema, and the value.

    from Connect   the schema becomes one of the format, is registered under the subject, and encodes the value
    to Connect     the schema with the id becomes one of Connect's

Values without a schema are not written: the classes of Confluent's give them a schema of their own, which nobody else
reads. The registry is kcli.schema_client's matter.

Source: Confluent's wire format and the options of its converters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from kcli.connect.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigError,
    ConfigKey,
    Importance,
    Password,
    Type,
    Value,
)
from kcli.connect.converters.converter import CONVERTER_TYPE, KEY, NOTHING, converter_config
from kcli.connect.data.errors import DataError, RetriableError
from kcli.connect.data.records import SchemaAndValue
from kcli.connect.data.schema import Schema
from kcli.connect.data.texts import java_text
from kcli.schema_client.client import Incompatible, Missing, RegistryClient
from kcli.schema_client.codec import BadPayload, BadValue, Codec
from kcli.schema_client.errors import RegistryError, SchemaError
from kcli.schema_client.http import Access, HttpTransport, Transport
from kcli.schema_client.reading import language_of
from kcli.schema_client.registry import TransportRegistry
from kcli.schema_client.sources import RegisteredSchema, SchemaSource, source_of
from kcli.schema_client.wire import message_indexes, schema_id

STRATEGIES: Final = "io.confluent.kafka.serializers.subject."
_TOPIC, _RECORD, _TOPIC_RECORD = (f"{STRATEGIES}{each}NameStrategy" for each in ("Topic", "Record", "TopicRecord"))
_CACHE: Final = "schemas.cache.config"
_CREDENTIALS, _USER = "basic.auth.credentials.source", "basic.auth.user.info"
_NOT_HONOURED: Final = ("bearer.auth.", "proxy.", "schema.registry.ssl.")
_LOW, _HIGH = Importance.LOW, Importance.HIGH


class _Writer(NamedTuple):
    """How the values of a schema are written. head: the bytes before each."""

    head: bytes
    codec: Codec


class _Reader(NamedTuple):
    """How the values of a registered schema are read."""

    schema: Schema
    codec: Codec


class RegisteredConverter:
    """Base of the converters. Raises ConfigError."""

    CLASS: ClassVar[str]
    LANGUAGE: ClassVar[str]
    CLASSES: ClassVar = frozenset({_TOPIC, _RECORD, _TOPIC_RECORD})
    """The classes, besides plug-ins, that options may name."""

    def __init__(self, properties: Mapping[str, str | None]) -> None:
        self.options = self.config().parse(properties)
        for name, text in properties.items():
            if name.startswith(_NOT_HONOURED):
                raise ConfigError.of(name, text, "kcli's registry client does not honour it")
        urls = self.options["schema.registry.url"]
        if not isinstance(urls, list) or not urls:
            raise ConfigError.of("schema.registry.url", urls, "no URL")
        transport = _AnyOf([HttpTransport(each, Access(login=_login(self.options))) for each in urls])
        self._client, self._registry = RegistryClient(transport), TransportRegistry(transport)
        self._is_key = self.options[CONVERTER_TYPE] == KEY
        size = self.options[_CACHE]
        assert isinstance(size, int), size
        self._writer = lru_cache(size)(self._made_writer)
        self._reader = lru_cache(size)(self._made_reader)

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the options."""
        return registered_config()

    def text_of(self, schema: Schema) -> str:
        """Return the text of a schema of the format for one of Connect's. Raises DataError."""
        raise NotImplementedError

    def schema_of(self, source: SchemaSource, indexes: tuple[int, ...]) -> Schema:
        """Return the schema of Connect for one of the format. Raises DataError."""
        raise NotImplementedError

    def tree_of(self, schema: Schema, value: Any) -> Any:
        """Return the JSON that the format's codec encodes. Raises DataError."""
        raise NotImplementedError

    def value_of(self, schema: Schema, tree: Any) -> Any:
        """Return the value of what the format's codec has decoded. Raises DataError."""
        raise NotImplementedError

    def from_connect(self, topic: str, schema: Schema | None, value: object) -> bytes | None:
        """Return the bytes of a value. Raises DataError, RetriableError if the registry does not answer."""
        if value is None:
            return None
        if schema is None:
            raise DataError(f"{self.CLASS} writes no value without a schema: {java_text(value)[:100]}")
        writer = self._asked(topic, lambda: self._writer(self._subject(topic, schema), schema))
        try:
            encoded: bytes = writer.codec.encode(self.tree_of(schema, value))
        except BadValue as error:
            raise DataError(f"Failed to serialize data of topic {topic}: {error}") from error
        return bytes(writer.head + encoded)

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the value of bytes. Raises DataError, RetriableError if the registry does not answer."""
        if data is None:
            return NOTHING
        try:
            found, at = schema_id(data)
            indexes: tuple[int, ...] = ()
            if self.LANGUAGE == "PROTOBUF":
                indexes, at = message_indexes(data, at)
            reader = self._asked(topic, lambda: self._reader(found, indexes))
            return SchemaAndValue(reader.schema, self.value_of(reader.schema, reader.codec.decode(data[at:])))
        except BadPayload as error:
            raise DataError(f"Failed to deserialize data of topic {topic}: {error}") from error

    def _asked(self, topic: str, ask: Callable[[], Any]) -> Any:
        """Return what depends on the registry. Raises DataError for what it refuses."""
        try:
            return ask()
        except (Incompatible, Missing, SchemaError) as error:
            raise DataError(f"Failed to access {self.LANGUAGE} data of topic {topic}: {error}") from error
        except RegistryError as error:
            kind = RetriableError if error.status is None or error.status >= 500 else DataError
            raise kind(f"Failed to access {self.LANGUAGE} data of topic {topic}: {error}") from error

    def _subject(self, topic: str, schema: Schema) -> str:
        strategy = self.options[f"{'key' if self._is_key else 'value'}.subject.name.strategy"]
        if strategy == _RECORD:
            return schema.name or ""
        if strategy == _TOPIC_RECORD:
            return f"{topic}-{schema.name}"
        return f"{topic}-{'key' if self._is_key else 'value'}"

    def _made_writer(self, subject: str, schema: Schema) -> _Writer:
        if self.options["use.latest.version"] is True:
            version = self._client.version(subject, "latest")
            known, registered = version.id, version.schema
        else:
            registered = RegisteredSchema(self.LANGUAGE, self.text_of(schema))
            if self.options["auto.register.schemas"] is True:
                known = self._client.register(subject, registered)
            else:
                known = self._client.look_up(subject, registered).id
        codec = language_of(registered.language).codec(source_of(self._registry, registered), ())
        return _Writer(b"\0" + known.to_bytes(4) + codec.message_indexes, codec)

    def _made_reader(self, found: int | str, indexes: tuple[int, ...]) -> _Reader:
        registered = self._registry.schema(found) if isinstance(found, int) else self._registry.schema_of_guid(found)
        if registered.language != self.LANGUAGE:
            raise SchemaError(f"schema {found} is {registered.language}, not {self.LANGUAGE}")
        source = source_of(self._registry, registered)
        return _Reader(self.schema_of(source, indexes), language_of(registered.language).codec(source, indexes))


class _AnyOf:
    """Registries of one cluster. A request goes to the one that has answered last, and to the next one after an error
    that another may not have."""

    def __init__(self, transports: Sequence[Transport]) -> None:
        self._transports = deque(transports)

    @property
    def name(self) -> str:
        """The name of the registry that is asked first."""
        return self._transports[0].name

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON that a registry answers with. Raises RegistryError."""
        for left in range(len(self._transports) - 1, -1, -1):
            try:
                return self._transports[0].request(method, path, body)
            except RegistryError as error:
                if not left or (error.status is not None and error.status < 500):
                    raise
                self._transports.rotate(-1)
        raise AssertionError("there is a registry")


def _login(options: Mapping[str, Value]) -> str | None:
    """Return the login of the configuration, None for that of the URL. Raises ConfigError."""
    source, user = options[_CREDENTIALS], options[_USER]
    login = user.value if isinstance(user, Password) and user.value else None
    if source == "USER_INFO":
        if login is None:
            raise ConfigError(f"{_USER} must be set with {_CREDENTIALS}=USER_INFO")
        return login
    if source != "URL":
        raise ConfigError.of(_CREDENTIALS, source, "kcli's registry client has URL and USER_INFO")
    if login is not None:
        raise ConfigError(f"{_USER} is set, which {_CREDENTIALS}=URL does not use: USER_INFO does")
    return None


def registered_config(*more: ConfigKey) -> ConfigDef:
    """Return the options of a converter with a registry. more: those of its format."""
    strategy = "How the subject is named: by the topic, by the record's schema, or by both."
    return converter_config(
        ConfigKey("schema.registry.url", Type.LIST, REQUIRED, _HIGH, "The registry's URL, or those of its nodes."),
        ConfigKey("auto.register.schemas", Type.BOOLEAN, "true", Importance.MEDIUM, "Whether schemas are registered."),
        ConfigKey("use.latest.version", Type.BOOLEAN, "false", _LOW, "Whether the subject's latest schema is written."),
        ConfigKey(_USER, Type.PASSWORD, "", Importance.MEDIUM, "The login: user:password."),
        ConfigKey(_CREDENTIALS, Type.STRING, "URL", Importance.MEDIUM, "Where the login is: URL or USER_INFO."),
        ConfigKey("key.subject.name.strategy", Type.CLASS, _TOPIC, Importance.MEDIUM, strategy),
        ConfigKey("value.subject.name.strategy", Type.CLASS, _TOPIC, Importance.MEDIUM, strategy),
        ConfigKey(_CACHE, Type.INT, "1000", _LOW, "The maximum number of schemas that the converter keeps."),
        *more,
    )
