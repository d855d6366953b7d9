"""How a service connects to brokers, by the properties of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.network.outbound import Outbound
from kcli.tls.contexts import TlsContext

if TYPE_CHECKING:
    from kcli.client.security import Security


def outbound_of(security: Security) -> Outbound:
    """Return how to connect to brokers, by the TLS and SASL of a client's properties."""
    from kcli.tls.settings import read_settings

    tls = None if security.tls is None else TlsContext(security.tls, read_settings({}), frozenset(), (), ())
    return Outbound(tls, security.sasl)
