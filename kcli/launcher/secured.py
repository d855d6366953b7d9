"""The nodes of `kcli serve --secure --nodes`: every listener uses SASL_SSL, with a certificate for each node.

    clients      log in by SCRAM; the admin is among the first records of the metadata log
    nodes        log in by PLAIN as the user `node`, a super user, at the brokers' and at the controllers' listener:
                 SCRAM credentials are in the metadata log, which cannot be read before the controllers have logged in
                 to each other and elected a leader

The password of the nodes is in their server.properties, which only its owner may read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcli.broker.config.security import JAAS
from kcli.broker.startup.secure import ADMIN, PROTOCOL, NotSecure, SecureDirectory, beside, new_password
from kcli.launcher.plan import ListenerNames, NodePlan
from kcli.metadata.image import Record
from kcli.security import plain
from kcli.security.scram import MECHANISMS

SECURED_LISTENERS: Final = ListenerNames(brokers=(PROTOCOL,))
_NODE: Final = "node"


@dataclass(frozen=True, slots=True)
class SecuredPlans:
    """The nodes, the path of the admin's client.properties, and the record of the admin's SCRAM credential."""

    plans: list[NodePlan]
    client: Path
    admin: Record


def new_secured(home: Path, plans: Sequence[NodePlan], now: dt.datetime) -> SecuredPlans:
    """Make the certificates and credentials of a new cluster with --secure, and return its nodes with the
    configurations for them.

    home: the cluster's directory. plans: the nodes without these configurations. now: the time, with a time zone.

    Raises UsageError, UnreadableInput, OSError.
    """
    directory, shared = _directory(home, plans, now), _shared()
    secured = [
        NodePlan(each.id, {**directory.properties(_certificate(each)), **shared, **each.properties}) for each in plans
    ]
    return SecuredPlans(secured, directory.client, directory.admin())


def open_secured(home: Path, plans: Sequence[NodePlan], now: dt.datetime) -> SecureDirectory:
    """Return the certificates and credentials of a cluster that was made with --secure; expired certificates are
    replaced. home: the cluster's directory. plans: its nodes. now: the time, with a time zone.

    Raises NotSecure if the cluster was made without --secure, UsageError, UnreadableInput, OSError.
    """
    is_closed = all(each.listeners <= {PROTOCOL, *SECURED_LISTENERS.controllers} for each in plans)
    if not is_closed or not beside(home).is_dir():
        raise NotSecure(
            f"{home}: did not begin with --secure, which makes listeners of its own. Next: kcli serve --secure --nodes "
            f"{sum(each.is_broker for each in plans)} --data-dir {home}-2"
        )
    return _directory(home, plans, now)


def _directory(home: Path, plans: Sequence[NodePlan], now: dt.datetime) -> SecureDirectory:
    hosts = {_certificate(each): [host.strip("[]") for host, _ in each.addresses] for each in plans}
    return SecureDirectory.open(beside(home), hosts, now)


def _certificate(node: NodePlan) -> str:
    return f"node-{node.id}.pem"


def _shared() -> dict[str, str]:
    """Return the configurations by which the nodes log in to each other."""
    password, controllers = new_password(), SECURED_LISTENERS.controllers[0]
    login = f'{plain.LOGIN_MODULE} required username="{_NODE}" password="{password}" user_{_NODE}="{password}";'
    prefixes = [f"listener.name.{each.lower()}" for each in (PROTOCOL, controllers)]
    return {
        "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},{controllers}:{PROTOCOL}",
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, plain.MECHANISM)),
        f"{prefixes[1]}.sasl.enabled.mechanisms": plain.MECHANISM,
        "sasl.mechanism.inter.broker.protocol": plain.MECHANISM,
        "sasl.mechanism.controller.protocol": plain.MECHANISM,
        **{f"{each}.{plain.MECHANISM.lower()}.{JAAS}": login for each in prefixes},
        "super.users": f"User:{ADMIN};User:{_NODE}",
    }
