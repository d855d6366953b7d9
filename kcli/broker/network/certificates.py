"""The keys and trusted certificates of a running node, which are read again when they change. The configurations of a
listener secure the connections that the listener accepts, and those that this node makes to the listener of that name
of other nodes.

    a file changes            the change is noticed within LOOK_S, and applied once the file is unchanged for LOOK_S
    a configuration changes   listener.name.<listener>.ssl.keystore.* and ssl.truststore.*: applied at once
    the change is invalid     the listener and the connections to other nodes keep the former keys and certificates, and
                              one log line has the reason

Open connections are not affected. kcli/tls/replacement.py decides which certificates may replace others. Source:
SslChannelBuilder.reconfigure, SslFactory, BrokerBlockingSender; KIP-226.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.broker.config.security import ListenerSecurity, listener_security
from kcli.broker.process.turns import apart
from kcli.broker.process.unattended import begin
from kcli.log.config import InvalidConfig
from kcli.tls.contexts import TlsContext, check_among_nodes, client_context, listener_context
from kcli.tls.replacement import check_replacement
from kcli.tls.settings import InvalidTlsSetting, read_settings

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.outbound import Outbound
    from kcli.broker.network.server import Server
    from kcli.broker.process.clock import Clock

log = logging.getLogger("kcli.broker")
LOOK_S: Final = 2.0
"""The time between two checks of the files, in seconds."""
State = tuple[int, int, int] | None
"""The modification time, size and inode of a file; None if there is no file."""


class _Sources(NamedTuple):
    """The inputs of a listener's TLS contexts: the settings, and the states of their files."""

    settings: Mapping[str, str]
    files: tuple[State, ...]


class _Made(NamedTuple):
    """New TLS contexts of a listener: `listener` for connections that it accepts, `outbound` for this node's
    connections to the listener of that name on other nodes. Each is None if no such context was made."""

    listener: TlsContext | None
    outbound: TlsContext | None


class Certificates:
    """The keys and trusted certificates of one node. outbound: how the node connects to a listener of other nodes, by
    the name of that listener. `start` needs a running event loop."""

    def __init__(self, config: BrokerConfig, server: Server, outbound: Mapping[str, Outbound], clock: Clock) -> None:
        self._config, self._server, self._clock = config, server, clock
        self._outbound = {name: each for name, each in outbound.items() if each.tls is not None}
        self._looking: asyncio.Task[None] | None = None
        names = server.tls_listeners.keys() | self._outbound.keys()
        self._tried = {name: _sources(listener_security(config, name)) for name in sorted(names)}
        self._seen = dict(self._tried)

    def start(self) -> None:
        """Check the files for changes every LOOK_S seconds from now on."""
        if self._tried:
            self._looking = begin(self._look_on(), "changes of certificates are not looked for any more")

    def stop(self) -> None:
        """Stop checking the files."""
        if self._looking is not None:
            self._looking.cancel()

    def configured(self) -> None:
        """Check the certificates at once, as the configuration may have changed."""
        if self._looking is not None:
            _ = begin(self._look(at_once=True), "certificates are not taken over")

    async def check(self, config: BrokerConfig) -> None:
        """Check that the keys and certificates of another configuration may replace the current ones. Raises
        InvalidConfig, whose message has the listener and the reason."""
        for name in self._tried:
            security = listener_security(config, name)
            if dict(security.tls) != dict(self._tried[name].settings):
                try:
                    await apart(self._made, config, security)
                except (InvalidTlsSetting, OSError) as error:
                    raise InvalidConfig(config.resolved.hide(f"listener {name}: {error}")) from None

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()

    async def _look(self, *, at_once: bool = False) -> None:
        """Look at the TLS settings of each listener and at their files, and apply those that have changed. at_once: if
        False, a change is applied only when it was there already at the last look, LOOK_S before."""
        for name, tried in list(self._tried.items()):
            security = listener_security(self._config, name)
            sources = await apart(_sources, security)
            seen, self._seen[name] = self._seen[name], sources
            if sources == tried or (sources != seen and not at_once):
                continue
            self._tried[name] = sources
            try:
                made = await apart(self._made, self._config, security)
            except (InvalidTlsSetting, InvalidConfig, OSError) as error:
                reason = self._config.resolved.hide(str(error))
                log.warning("listener %s keeps its keys and trusted certificates: %s", name, reason)
                continue
            self._take(name, made)
            log.info("listener %s has new keys or trusted certificates", name)

    def _take(self, name: str, made: _Made) -> None:
        if made.outbound is not None:
            self._outbound[name].tls = made.outbound
        if made.listener is not None:
            self._server.replace_tls(name, made.listener)
        first = made.listener or made.outbound
        for warning in () if first is None else first.warnings:
            log.warning("listener %s: %s", name, warning)

    def _made(self, config: BrokerConfig, security: ListenerSecurity) -> _Made:
        """Return new TLS contexts of a listener, made from the current files. Raises OSError, and InvalidTlsSetting for
        invalid files or if the new certificates may not replace the current ones."""
        name = security.listener
        now = dt.datetime.fromtimestamp(self._clock.now_ms() / 1000, dt.UTC)

        def may_follow(old: TlsContext, new: TlsContext) -> TlsContext:
            check_replacement(
                old,
                new,
                allows_names=config.get("ssl.allow.dn.changes") is True,
                allows_hosts=config.get("ssl.allow.san.changes") is True,
            )
            return new

        listener = outbound = None
        if (old := self._server.tls_listeners.get(name)) is not None:
            listener = may_follow(old, listener_context(security.tls, now))
            if name == config.inter_broker_listener:
                check_among_nodes(security.tls, now)
        if name in self._outbound and (old := self._outbound[name].tls) is not None:
            outbound = may_follow(old, client_context(security.tls, now))
        return _Made(listener, outbound)


def _sources(security: ListenerSecurity) -> _Sources:
    settings = dict(security.tls)
    try:
        files = read_settings(settings).files
    except InvalidTlsSetting:
        return _Sources(settings, ())
    return _Sources(settings, tuple(map(_state, files)))


def _state(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
