"""The parsing of listeners, voters and other addresses in configurations.

    listeners, advertised.listeners      NAME://host:port, ...   no host: all interfaces; IPv6 in brackets or not
    listener.security.protocol.map       NAME:PROTOCOL, ...
    controller.quorum.voters             id@host:port, ...
    controller.quorum.bootstrap.servers  host:port, ...
    max.connections.per.ip.overrides     host:count, ...

Source: AbstractKafkaConfig, SocketServerConfigs, QuorumConfig, Utils, Csv.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kcli.java.values import comma_list, java_integer
from kcli.log.config import InvalidConfig

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SCHEME = frozenset(string.ascii_letters + string.digits + "-%._")
_HOST = _SCHEME | {":"}
_VOTER_FORM = "Each entry should be in the form `{id}@{host}:{port}`."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener. host: None for all interfaces."""

    listener: str
    security_protocol: str
    host: str | None
    port: int


def parse_listeners(
    words: Sequence[str], protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> tuple[Endpoint, ...]:
    """Return the endpoints of `listeners` or `advertised.listeners`. protocols: listener name -> security protocol.
    distinct_ports: whether two listeners with the same port are refused, as in `listeners`, unless one has an IPv4
    address and the other an IPv6 address. Raises InvalidConfig."""
    try:
        endpoints = tuple(_listener(word, protocols) for word in words)
        _validate(endpoints, words, distinct_ports=distinct_ports)
    except InvalidConfig as reason:
        raise InvalidConfig(f"Error creating broker listeners from '{_java(words)}': {reason}") from None
    return endpoints


def _listener(word: str, protocols: Mapping[str, str]) -> Endpoint:
    name, slashes, address = word.rpartition("://")
    found = _host_port(address)
    if not slashes or found is None:
        raise InvalidConfig(f"Unable to parse {word} to a broker endpoint")
    host, digits = found
    name, port = name.upper(), java_integer(digits)
    if port is None:
        raise InvalidConfig(f'For input string: "{digits}"')
    if name not in protocols:
        raise InvalidConfig(f"No security protocol defined for listener {name}")
    return Endpoint(name, protocols[name], host or None, port)


def _host_port(address: str) -> tuple[str, str] | None:
    """Return the host, without brackets, and the digits after the last colon; None if the address has another form."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    digits = port.removeprefix("-")
    if not colon or not _HOST.issuperset(host) or not (digits.isascii() and digits.isdecimal()):
        return None
    return host, port


def _server(word: str) -> tuple[str, int] | None:
    """Return the host and port of an address, whose scheme, if it has one, is ignored; None if the address has another
    form."""
    scheme, slashes, address = word.rpartition("://")
    found = _host_port(address)
    if found is None or (slashes and not _SCHEME.issuperset(scheme)):
        return None
    port = None if found[1].startswith("-") else java_integer(found[1])
    return None if port is None else (found[0], port)


def listener_name(word: str) -> str:
    """Return the listener's name in an entry of `listeners`: the text before the first colon, in upper case. Raises
    InvalidConfig."""
    name, colon, _ = word.partition(":")
    if not colon:
        raise InvalidConfig(f"Unable to parse a listener name from {word}")
    return name.upper()


def _validate(endpoints: Sequence[Endpoint], words: Sequence[str], *, distinct_ports: bool) -> None:
    if len({each.listener for each in endpoints}) != len(endpoints):
        raise InvalidConfig(f"Each listener must have a different name, listeners: {_java(words)}")
    if not distinct_ports:
        return
    for port in sorted({each.port for each in endpoints} - {0}):
        same = [each for each in endpoints if each.port == port]
        if len(same) < 2:
            continue
        versions = [_ip_version(each.host) for each in same if _ip_version(each.host)]
        if len(same) - len(versions) > 1:
            raise InvalidConfig(f"Each listener must have a different port, listeners: {_java(words)}")
        where = f"listeners: {_java(words)}, port: {port}"
        if len(versions) == 2:
            if sorted(versions) != [4, 6] or len(same) > 2:
                raise InvalidConfig(
                    "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, " + where
                )
        elif versions:
            raise InvalidConfig(
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the "
                "other IPv6 address, " + where
            )


def _ip_version(host: str | None) -> int:
    """Return 4 or 6 for an IP address; 0 for a name, and for no host."""
    import ipaddress

    try:
        return ipaddress.ip_address(host or "").version
    except ValueError:
        return 0


def parse_protocol_map(name: str, text: str) -> dict[str, str]:
    """Return the value of `listener.security.protocol.map` as a mapping: listener name, upper case -> protocol. name:
    the configuration's name, for the error message. Raises InvalidConfig."""
    protocols = {listener.upper(): protocol.upper() for listener, protocol in parse_map(name, text).items()}
    for protocol in protocols.values():
        if protocol not in PROTOCOLS:
            raise InvalidConfig(f"Invalid security protocol `{protocol}` defined in {name}")
    return protocols


def parse_map(name: str, text: str) -> dict[str, str]:
    """Return the keys and values of a text like `key:value,...`, split at the last colon of each pair. name: the
    configuration's name, for the error message. Raises InvalidConfig."""
    pairs = {}
    for word in comma_list(text) if text else ():
        key, colon, value = word.rpartition(":")
        if not colon:
            reason = f"begin 0, end -1, length {len(word)}"
            raise InvalidConfig(f"Error parsing configuration property '{name}': {reason}")
        pairs[key.strip()] = value.strip()
    return pairs


def parse_counts(name: str, text: str) -> dict[str, int]:
    """Return `max.connections.per.ip.overrides`: host -> greatest number of its connections. name: the configuration's
    name, for the error message. Raises InvalidConfig."""
    counts = {}
    for host, count in parse_map(name, text).items():
        number = java_integer(count)
        if number is None:
            raise InvalidConfig(f'For input string: "{count}"')
        counts[host] = number
    return counts


def parse_voter(word: str) -> tuple[int, str, int]:
    """Return the id, host and port of a voter that is written id@host:port. Raises InvalidConfig."""
    name, *rest = word.split("@")
    if len(rest) != 1 or not rest[0]:
        raise InvalidConfig(f"Invalid configuration value for controller.quorum.voters. {_VOTER_FORM}")
    voter = java_integer(name)
    if voter is None:
        raise InvalidConfig(f"Failed to parse voter ID as an integer from {name}")
    address = _server(rest[0])
    if address is None:
        raise InvalidConfig(
            f"Failed to parse host name from entry {word} for the configuration controller.quorum.voters. {_VOTER_FORM}"
        )
    return voter, *address


def parse_bootstrap_server(word: str) -> tuple[str, int]:
    """Return the host and port of a bootstrap server that is written host:port. Raises InvalidConfig."""
    address = _server(word)
    if address is None:
        raise InvalidConfig(
            f"Failed to parse host name from {word} for the configuration controller.quorum.bootstrap.servers. "
            'Each entry should be in the form "{host}:{port}"'
        )
    return address


def _java(words: Iterable[str]) -> str:
    """Return a list as Java prints it."""
    return f"[{', '.join(words)}]"
