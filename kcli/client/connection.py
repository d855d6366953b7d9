"""The connection to a cluster: librdkafka's clients, and the error for a cluster that does not answer.

librdkafka retries without end and reports an unreachable broker to the error callback only. kcli fails once all brokers
have been down for GRACE_S (librdkafka tries a host's addresses one after the other), or no broker has answered for
`timeout_s`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kcli.client.security import CLOSED, ENDPOINT, OAUTH_PROPERTIES, TOKEN_AUTH, Security, oauth_tokens, security_of
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_code import ErrorCode

GRACE_S = 1.0
SLICE_S = 0.5
QUIET, NOTICE = 0, 6  # levels of syslog
AUTHENTICATION = KafkaError._AUTHENTICATION  # noqa: SLF001 (so librdkafka names its own errors)
ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 (so librdkafka names its own errors)
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 (librdkafka's own codes have no public name)
NAME_SHOWN = 60
NOBODY = {
    ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,  # noqa: SLF001 (librdkafka's own codes have no public name)
    KafkaError._TRANSPORT,  # noqa: SLF001 (librdkafka's own codes have no public name)
    KafkaError._RESOLVE,  # noqa: SLF001 (librdkafka's own codes have no public name)
}


_UNNAMED = 'No such configuration property: ""'

Client = TypeVar("Client", AdminClient, Consumer, Producer)


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise UsageError for a property that librdkafka does not know, or whose value it refuses.

    No client is made for the check: each property is given to librdkafka together with a second one, which has an empty
    name. librdkafka checks properties in order, and always refuses the second one.
    """
    for name, value in properties.items():
        if name == TOKEN_AUTH:
            continue
        try:
            Producer({name: value, "": ""})
        except KafkaException as error:
            if (reason := kafka_error(error).str()) != _UNNAMED:
                raise UsageError(reason) from None
        except (AttributeError, TypeError):  # raised for confluent_kafka's own properties, whose values are functions
            raise UsageError(f'The value of configuration property "{name}" cannot be a text') from None


class Unreachable(KcliError):
    """No broker of the cluster answers. is_of_login: whether a broker has refused the login."""

    def __init__(self, reason: str, *, is_of_login: bool = False) -> None:
        super().__init__(reason)
        self.is_of_login = is_of_login


class Refused(KcliError):
    """The cluster, or librdkafka, has refused a request. The message consists of the object, Kafka's name of the error
    and its text."""

    def __init__(self, subject: str, error: KafkaError) -> None:
        text = error.str().removeprefix("Broker: ").removeprefix("Local: ")
        name = error_name(error)
        super().__init__(": ".join([*([subject] if subject else []), name, text]))
        self.name = name


def error_name(error: KafkaError) -> str:
    """Return Kafka's name of an error code from a broker, or librdkafka's name of an error of librdkafka itself."""
    code = error.code()
    if code == KafkaError.UNKNOWN or code > 0:
        with suppress(ValueError):
            return ErrorCode(code).name
    return error.name().removeprefix("_")


def kafka_error(error: KafkaException) -> KafkaError:
    """Return the KafkaError in librdkafka's exception."""
    found = error.args[0]
    assert isinstance(found, KafkaError), found
    return found


@dataclass
class Trouble:
    """The error callback of librdkafka's clients. reason: the text of the most recent error; is_of_login: whether that
    error was a failed login; down_since: the monotonic time at which the last reachable broker became unreachable, None
    while a broker is connected."""

    reason: str | None = None
    is_of_login: bool = False
    down_since: float | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() == ALL_BROKERS_DOWN:
            if self.down_since is None:
                self.down_since = time.monotonic()
        else:
            self.reason, self.is_of_login = error.str(), error.code() == AUTHENTICATION

    def down_for(self, seconds: float) -> bool:
        """Whether all brokers have been down for `seconds` seconds."""
        return self.down_since is not None and time.monotonic() - self.down_since >= seconds


@dataclass(frozen=True)
class Connection:
    """How clients reach a cluster. bootstrap: HOST:PORT,...; properties: librdkafka's properties, which override those
    that kcli sets; timeout_s: how long to wait for a response; chatty: whether librdkafka's log lines go to stderr."""

    bootstrap: str
    properties: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 10.0
    chatty: bool = False
    trouble: Trouble = field(default_factory=Trouble)

    def security(self) -> Security:
        """Return the TLS and SASL of kcli's own connections, from librdkafka's properties. Raises UsageError,
        KcliError."""
        return security_of(self.properties)

    def admin(self) -> AdminClient:
        """Return an admin client of librdkafka. Raises UsageError for a property that librdkafka refuses."""
        return self._made(AdminClient, {})

    def producer(self, settings: dict[str, Any]) -> Producer:
        """Return a producer of librdkafka. settings: librdkafka's properties, which `properties` overrides. Raises
        UsageError for a property that librdkafka refuses."""
        return self._made(Producer, settings)

    def consumer(self, settings: dict[str, Any]) -> Consumer:
        """Return a consumer of librdkafka. settings: librdkafka's properties, which `properties` overrides. Raises
        UsageError for a property that librdkafka refuses.

        librdkafka requires a group id, which is "kcli" if `settings` has none: such a consumer must be given its
        partitions by assignment, so that it joins no group, and it commits no offsets.
        """
        return self._made(Consumer, {"group.id": "kcli", "enable.auto.commit": False, **settings})

    def _made(self, client: type[Client], settings: dict[str, Any]) -> Client:
        config = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "kcli",
            "log_level": NOTICE if self.chatty else QUIET,
            "error_cb": self.trouble,
            **settings,
            **self.properties,
        }
        self._take_login(config)
        if config.get("group.id") == "":  # with an empty group id, librdkafka's consumer would abort the process
            raise UsageError("the group's id is empty")
        try:
            return client(config)
        except KafkaException as error:
            raise UsageError(kafka_error(error).str()) from None

    def _take_login(self, config: dict[str, Any]) -> None:
        """Replace the OAUTHBEARER properties in `config` by a callback if the token is in a file, which librdkafka
        cannot read. Raises UsageError (also for a delegation token, with which librdkafka cannot log in), KcliError."""
        if TOKEN_AUTH in config:
            raise UsageError(
                "a delegation token: librdkafka logs in with none; kcli acls, users, tokens and cluster status do"
            )
        if config.get(ENDPOINT, "").startswith("file:") and (tokens := oauth_tokens(self.properties)) is not None:
            for name in OAUTH_PROPERTIES:
                config.pop(name, None)
            tokens.token()  # a fault of the file is reported before a broker is contacted
            config["oauth_cb"] = tokens.for_librdkafka

    def metadata(self, client: AdminClient | Consumer | Producer, topic: str | None = None) -> ClusterMetadata:
        """Return the cluster's metadata, for one topic or for all topics (None). Raises Unreachable, Refused."""
        began = time.monotonic()
        named = {} if topic is None else {"topic": topic}
        while True:
            try:
                found: ClusterMetadata = client.list_topics(timeout=min(SLICE_S, self.timeout_s), **named)
            except KafkaException as error:
                if kafka_error(error).code() not in NOBODY:
                    raise Refused(topic or "", kafka_error(error)) from None
            except UnicodeDecodeError as error:
                reason = f"a name in the broker's answer is not UTF-8: {error.object[:NAME_SHOWN]!r}"
                raise KcliError(f"{self.bootstrap}: {reason}") from None
            else:
                self.trouble.down_since = None
                return found
            client.poll(0)
            if self.trouble.down_for(GRACE_S) or time.monotonic() - began >= self.timeout_s:
                raise self.unreachable()
            time.sleep(0.05)

    def unreachable(self) -> Unreachable:
        """Return the error for a cluster in which no broker answers, with the last reason that librdkafka reported, if
        any: librdkafka reports no reason for a connection that a broker closes before the first response."""
        reason = self.trouble.reason or "no word from it"
        is_plain = not self.properties.get("security.protocol", "plaintext").lower().endswith("ssl")
        if is_plain and (self.trouble.reason is None or "security.protocol" in reason):
            reason += f"; {CLOSED}"
        what = "the login failed" if self.trouble.is_of_login else "no broker answers"
        return Unreachable(f"{self.bootstrap}: {what} ({reason})", is_of_login=self.trouble.is_of_login)
