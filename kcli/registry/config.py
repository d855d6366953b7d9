"""The configurations of a registry, by the names that Confluent's Schema Registry gives them.

    listeners                               http://HOST:PORT or https://HOST:PORT, ...; an empty host is all addresses
    host.name                               the host that other registries reach this one at
    schema.registry.group.id                the group of the registries that elect one leader
    leader.eligibility, leader.election.sticky
    schema.compatibility.level, mode.mutability
    kafkastore.topic, .topic.replication.factor, .topic.skip.validation, .topic.config.*, .timeout.ms,
    .init.timeout.ms; kafkagroup.session.timeout.ms, .heartbeat.interval.ms, .rebalance.timeout.ms
    kafkastore.security.protocol, kafkastore.sasl.*, kafkastore.ssl.*
                                            how to connect to the brokers, by the names of Kafka's clients
    ssl.*                                   of https, as Kafka names them; also for what is forwarded to the leader
    authentication.method                   NONE or BASIC
    authentication.users.file, authentication.scram, authorization.acl.file, super.users
                                            kcli's own names, see access.py
    request.body.max.bytes, connections.max kcli's own names

A name that is not in this table is refused: nothing that is configured is silently left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kcli.errors import UsageError
from kcli.registry.leader import GroupConfig
from kcli.registry.log import LogConfig
from kcli.registry.messages import Limits
from kcli.service.http import HttpLimits

DEFAULT_PORT: Final = 8081
LEVELS: Final = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
KAFKASTORE: Final = "kafkastore."
TOPIC_CONFIG: Final = "kafkastore.topic.config."
CLIENT: Final = ("kafkastore.security.", "kafkastore.sasl.", "kafkastore.ssl.")
NAMES: Final = frozenset(
    {
        "authentication.method",
        "authentication.scram",
        "authentication.users.file",
        "authorization.acl.file",
        "avro.compatibility.level",
        "connections.max",
        "host.name",
        "kafkagroup.heartbeat.interval.ms",
        "kafkagroup.rebalance.timeout.ms",
        "kafkagroup.session.timeout.ms",
        "kafkastore.bootstrap.servers",
        "kafkastore.init.timeout.ms",
        "kafkastore.timeout.ms",
        "kafkastore.topic",
        "kafkastore.topic.replication.factor",
        "kafkastore.topic.skip.validation",
        "leader.election.sticky",
        "leader.eligibility",
        "listeners",
        "master.eligibility",
        "mode.mutability",
        "request.body.max.bytes",
        "schema.compatibility.level",
        "schema.registry.group.id",
        "super.users",
    }
)


class Listener(NamedTuple):
    """An address to serve. host: empty for all addresses."""

    scheme: str
    host: str
    port: int


class RegistryConfig(NamedTuple):
    """The configurations of a registry.

    tls: the settings ssl.*. client: the client properties kafkastore.security.* and so on, without the prefix; empty if
    there are none. init_s: seconds until the topic must be readable. users_file, acl_file: None without one. has_scram:
    whether the users of the broker's SCRAM store may log in.
    """

    listeners: tuple[Listener, ...] = (Listener("http", "", DEFAULT_PORT),)
    host_name: str = ""
    is_eligible: bool = True
    log: LogConfig = LogConfig()
    group: GroupConfig = GroupConfig()
    http: HttpLimits = HttpLimits()
    limits: Limits = Limits()
    tls: Mapping[str, str] = {}
    client: Mapping[str, str] = {}
    init_s: float = 60.0
    asks_login: bool = False
    users_file: Path | None = None
    has_scram: bool = False
    acl_file: Path | None = None
    super_users: tuple[str, ...] = ()

    @property
    def has_tls(self) -> bool:
        """Whether a listener is https."""
        return any(each.scheme == "https" for each in self.listeners)


def parse_listener(text: str) -> Listener:
    """Return a listener. text: http://HOST:PORT, https://HOST:PORT, or HOST:PORT. Raises UsageError."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise UsageError(f"listeners: {text!r}: {error}") from None
    if parts.scheme not in ("http", "https") or parts.path.strip("/") or parts.query or parts.username is not None:
        raise UsageError(f"listeners: {text!r} is not http://HOST:PORT or https://HOST:PORT")
    host = parts.hostname or ""
    return Listener(parts.scheme, "" if host in ("0.0.0.0", "*") else host, port)  # noqa: S104  (compared, not bound)


def registry_config(properties: Mapping[str, str]) -> RegistryConfig:
    """Return the configuration of a registry by its properties. Raises UsageError for an unknown name or an invalid
    value."""
    read = _Reader(properties)
    unknown = [name for name in properties if not _is_known(name)]
    if unknown:
        raise UsageError(f"{', '.join(sorted(unknown))}: no configuration of kcli registry")
    group_id = read.text("schema.registry.group.id", "schema-registry")
    level = read.text("schema.compatibility.level", read.text("avro.compatibility.level", "BACKWARD")).upper()
    if level not in LEVELS:
        raise UsageError(f"schema.compatibility.level: {level} is none of {', '.join(LEVELS)}")
    method = read.text("authentication.method", "NONE").upper()
    if method not in ("NONE", "BASIC"):
        raise UsageError(f"authentication.method: {method} is none of NONE, BASIC")
    users_file, has_scram = read.path("authentication.users.file"), read.boolean("authentication.scram", default=False)
    acl_file, super_users = read.path("authorization.acl.file"), read.text("super.users", "")
    if (method == "BASIC") != (users_file is not None or has_scram):
        raise UsageError("authentication.method=BASIC goes with authentication.users.file or authentication.scram=true")
    if (acl_file is not None or super_users) and method == "NONE":
        raise UsageError("authorization.acl.file and super.users need authentication.method=BASIC")
    limits, http, group, log = Limits(), HttpLimits(), GroupConfig(), LogConfig()
    body_size_max = read.number("request.body.max.bytes", limits.body_size_max, 1)
    config = RegistryConfig(
        listeners=tuple(
            parse_listener(each.strip())
            for each in read.text("listeners", f"http://0.0.0.0:{DEFAULT_PORT}").split(",")
            if each.strip()
        ),
        host_name=read.text("host.name", ""),
        is_eligible=read.boolean("leader.eligibility", default=read.boolean("master.eligibility", default=True)),
        log=LogConfig(
            topic=read.text("kafkastore.topic", log.topic),
            replication_factor=read.number("kafkastore.topic.replication.factor", log.replication_factor, 1),
            topic_config={
                name.removeprefix(TOPIC_CONFIG): value
                for name, value in properties.items()
                if name.startswith(TOPIC_CONFIG)
            },
            transactional_id=group_id,
            timeout_s=read.seconds("kafkastore.timeout.ms", log.timeout_s),
            checks_topic=not read.boolean("kafkastore.topic.skip.validation", default=False),
        ),
        group=GroupConfig(
            group_id,
            read.seconds("kafkagroup.session.timeout.ms", group.session_s),
            read.seconds("kafkagroup.heartbeat.interval.ms", group.heartbeat_s),
            read.seconds("kafkagroup.rebalance.timeout.ms", group.rebalance_s),
            read.boolean("leader.election.sticky", default=False),
        ),
        http=http._replace(
            body_size_max=body_size_max, connections_max=read.number("connections.max", http.connections_max, 1)
        ),
        limits=limits._replace(
            body_size_max=body_size_max,
            default_compatibility=level,
            mode_mutability=read.boolean("mode.mutability", default=True),
        ),
        tls={name: value for name, value in properties.items() if name.startswith("ssl.")},
        client={name.removeprefix(KAFKASTORE): value for name, value in properties.items() if name.startswith(CLIENT)},
        init_s=read.seconds("kafkastore.init.timeout.ms", 60.0),
        asks_login=method == "BASIC",
        users_file=users_file,
        has_scram=has_scram,
        acl_file=acl_file,
        super_users=tuple(each.strip() for each in super_users.split(";") if each.strip()),
    )
    if not config.listeners:
        raise UsageError("listeners: there is none")
    return config


def _is_known(name: str) -> bool:
    return name in NAMES or name.startswith((TOPIC_CONFIG, "ssl.", *CLIENT))


class _Reader:
    """Parses values of properties. Each method raises UsageError, which names the property."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def text(self, name: str, default: str) -> str:
        return self._properties.get(name, default).strip()

    def path(self, name: str) -> Path | None:
        text = self.text(name, "")
        return Path(text) if text else None

    def boolean(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise UsageError(f"{name}: {text!r} is neither true nor false")
        return text == "true"

    def number(self, name: str, default: int, least: int) -> int:
        text = self.text(name, str(default))
        if not text.isascii() or not text.isdecimal() or not least <= int(text[:11]) <= 2**31 - 1:
            raise UsageError(f"{name}: {text!r} is no number from {least} to {2**31 - 1:,}")
        return int(text)

    def seconds(self, name: str, default_s: float) -> float:
        return self.number(name, int(default_s * 1000), 1) / 1000
