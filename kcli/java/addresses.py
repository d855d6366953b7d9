"""Addresses as Java writes them: an IPv6 address in all its parts, without "::". Source: InetAddress.getHostAddress."""

from __future__ import annotations


def host_address(address: str) -> str:
    """Return an IP address as Java writes it: "::1" is "0:0:0:0:0:0:0:1", "::ffff:10.0.0.1" is "10.0.0.1".

    An IPv4 address is returned as it is. Raises ValueError for a text with ":" that is no IPv6 address.
    """
    if ":" not in address:
        return address
    from ipaddress import IPv6Address

    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = parsed.packed.hex(":", 2).split(":")
    text = ":".join(f"{int(group, 16):x}" for group in groups)
    return text if parsed.scope_id is None else f"{text}%{parsed.scope_id}"
