"""Java's static JAAS configuration: the file that Java's system property java.security.auth.login.config names. The
property is set with -D in the environment variable KAFKA_OPTS, as it is for Kafka.

    <listener, lower case>.KafkaServer    the entries of one listener
    KafkaServer                           the entries of the listeners without a section of their own

The entries apply to a mechanism for which a listener has no sasl.jaas.config. The file is read once, when an entry is
first needed. Source: JaasContext.defaultContext; sun.security.provider.ConfigFile.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from kcli.java.options import system_property
from kcli.log.config import InvalidConfig
from kcli.security.jaas import InvalidJaasConfig, LoginModule, check_allowed, parse_jaas_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOGIN_CONFIG: Final = "java.security.auth.login.config"
_SECTION: Final = "KafkaServer"
BYTES_MAX: Final = 1 << 20


class StaticJaas:
    """The sections of the JAAS file that KAFKA_OPTS names. where: KAFKA_OPTS and the file's name, for error messages;
    None if KAFKA_OPTS names no file."""

    def __init__(self, java_options: str) -> None:
        """java_options: the value of KAFKA_OPTS."""
        self._location = system_property(java_options, LOGIN_CONFIG)
        self.where = None if self._location is None else f"KAFKA_OPTS: {LOGIN_CONFIG}={self._location}"

    def entries(self, listener: str) -> Sequence[LoginModule]:
        """Return the entries for a listener: those of its own section, else those of the section KafkaServer; empty if
        the file has neither, or if KAFKA_OPTS names no file. Raises InvalidConfig, whose message leaves out the file's
        text, as it contains passwords."""
        found = self._sections.get(f"{listener.lower()}.{_SECTION}") or self._sections.get(_SECTION) or []
        try:
            check_allowed(found)
        except InvalidJaasConfig as error:
            raise InvalidConfig(f"{self.where}: {error}") from None
        return found

    @cached_property
    def _sections(self) -> Mapping[str | None, Sequence[LoginModule]]:
        if self._location is None:
            return {}
        try:
            return parse_jaas_file(_read(self._location.removeprefix("=")))
        except OSError as error:
            raise InvalidConfig(f"{self.where}: {error.strerror or error}") from None
        except (InvalidJaasConfig, ValueError) as error:
            raise InvalidConfig(f"{self.where}: {error}") from None


def _read(location: str) -> str:
    """Return the text of a file, given by its path or by its URL, file:... Raises OSError, ValueError."""
    if location.startswith("file:"):
        location = unquote(urlsplit(location).path)
    with Path(location).open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX:,} bytes")
    return content.decode(errors="replace")
