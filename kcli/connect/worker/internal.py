"""Requests between the workers of a group: what a worker has the leader do, and how a request is known to come from a
worker.

    POST /connectors/NAME/tasks    the leader writes the configurations of a connector's tasks
    PUT /connectors/NAME/fence     the leader fences the producers of a source's earlier tasks

With the protocol `sessioned` they are signed with a key that the leader puts into connect-configs. Source:
DistributedHerder, RestClient, InternalRequestSignature; KIP-507, KIP-618.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from kcli.connect.membership import signing
from kcli.connect.topics.configs import Properties, SessionKey, session_key_record
from kcli.connect.worker.errors import BadRequest, Conflict, Forbidden, RestError, Unavailable
from kcli.service.http_client import NoAnswer
from kcli.service.json_text import dumps
from kcli.service.messages import ERROR_STATUS, JSON, Request

if TYPE_CHECKING:
    from kcli.connect.worker.group import Group
    from kcli.connect.worker.leading import Leading
    from kcli.connect.worker.peers import Peers
    from kcli.connect.worker.stores import Stores

REQUEST_S: Final = 30.0


class InternalRequests:
    """What a worker asks of the leader (kcli.connect.worker.group.Leader), and the signatures of what it is asked.
    leading: what it does as the leader itself. key_ttl_ms: how long a key is used."""

    def __init__(self, group: Group, leading: Leading, stores: Stores, peers: Peers, key_ttl_ms: int) -> None:
        self._group, self._leading, self._stores, self._peers = group, leading, stores, peers
        self._key_ttl_ms = key_ttl_ms

    async def put_tasks(self, name: str, tasks: Sequence[Properties]) -> None:
        """Have the leader write the configurations of a connector's tasks. Raises KcliError."""
        if self._group.is_leader:
            await self._leading.put_tasks(name, tasks)
        else:
            await self._ask("POST", f"/connectors/{quote(name, safe='')}/tasks", dumps([dict(each) for each in tasks]))

    async def fence(self, name: str) -> None:
        """Have the leader fence the producers of a connector's earlier tasks. Raises KcliError."""
        if self._group.is_leader:
            await self._leading.fence(name)
        else:
            await self._ask("PUT", f"/connectors/{quote(name, safe='')}/fence", b"")

    async def _ask(self, method: str, path: str, body: bytes) -> None:
        url = self._group.leader_url
        if url is None:
            raise Conflict("a rebalance is underway")
        headers = {"accept": JSON, **({"content-type": JSON} if body else {})}
        key = self._stores.configs.session_key
        if self._group.signs_requests and key is not None:
            headers |= signing.signed(body, key.key)
        try:
            answer = await self._peers.ask(url, Request(method, path, "", headers, body), REQUEST_S)
        except NoAnswer as error:
            raise RestError(f"the leader does not answer to {method} {path}: {error}") from None
        if answer.status >= ERROR_STATUS:
            raise RestError(f"{url}: {answer.status}: {answer.body.decode('utf-8', 'replace')[:500]}")

    async def renew_key(self) -> None:
        """As the leader, distribute a session key if there is none, or it is too old. Raises KcliError."""
        if not (self._group.is_leader and self._group.signs_requests):
            return
        known, now_ms = self._stores.configs.session_key, int(time.time() * 1000)
        if known is not None and now_ms < known.created_ms + self._key_ttl_ms:
            return
        key = SessionKey(secrets.token_bytes(signing.KEY_BYTES), signing.ALGORITHM, now_ms)
        await self._stores.write_configs([session_key_record(key)])

    def check_signature(self, request: Request) -> None:
        """Check that a request comes from a worker of the group. Raises RestError."""
        if not self._group.signs_requests:
            return
        key = self._stores.configs.session_key
        if key is None:
            raise Unavailable(
                "This worker is still starting up and has not been able to read a session key from the config topic yet"
            )
        try:
            found = signing.signature_of(request.headers)
        except ValueError as error:
            raise BadRequest(f"Internal request has a signature that cannot be used: {error}") from None
        if found is None:
            raise BadRequest("Internal request missing required signature")
        if found[1] != signing.ALGORITHM:
            raise BadRequest(
                f"This worker does not support the '{found[1]}' key signing algorithm used by other workers. This "
                f"worker is currently configured to use: [{signing.ALGORITHM}]. Check that all workers' configuration "
                "files permit the same set of signature algorithms, and correct any misconfigured worker and restart "
                "it."
            )
        if not signing.is_valid(request.body, *found, key.key):
            raise Forbidden("Internal request contained invalid signature.")
