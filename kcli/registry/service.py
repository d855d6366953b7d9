"""Handles requests: reads from the image, appends changes to the log, forwards writes to the leader.

    loop     point lookups (a schema by id, a version of a subject) of an image that only the loop changes
    worker   a thread for all other requests, as parsing and comparing schemas takes time; while it works, no record is
             replayed, so that it sees one state; requests with large bodies wait until the others are done
    writer   one change at a time: decided in the worker, appended, and answered once it is replayed

The answer to a GET depends only on the image, so answers are kept as bytes until the next record that changes the
image. A registry that does not lead forwards requests that may make a change; if a schema is registered already, it
answers itself, as Confluent's registry does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.registry.access import Access, unauthorized
from kcli.registry.api import Image, handle, is_known, operation_of, refusal, subject_of
from kcli.registry.config import RegistryConfig
from kcli.registry.errors import denied
from kcli.registry.forward import forward, is_forwarded
from kcli.registry.leader import Assigned, Election, Identity
from kcli.registry.log import NOOP, NotAppended, SchemasLog
from kcli.registry.messages import Change, Operation, error_answer
from kcli.registry.messages import Identity as Version
from kcli.registry.turns import Turns
from kcli.service.cluster import PASSING, RETRY_S, Cluster, Refused
from kcli.service.fetched import Record
from kcli.service.http import encode
from kcli.service.http_client import NoAnswer
from kcli.service.messages import Answer, Request

T = TypeVar("T")
log = logging.getLogger("kcli.registry")
LOOKUP: Final = re.compile(
    r"/schemas/ids/\d+(?:/schema)?/?|/subjects/[^/]+/versions/[^/]+(?:/schema)?/?|/schemas/types/?|/"
)
"""Paths of point lookups, for which no schema is parsed unless the query asks for a format."""
PLAIN_QUERY: Final = re.compile(r"(?:(?:subject|deleted|fetchMaxId|referenceFormat)=[^&]*&?)*")
"""Queries that a point lookup may have."""
OF_ID: Final = re.compile(r"(/contexts/[^/]+)?/schemas/ids/(\d+)(?:/.*)?")
REGISTERING: Final = re.compile(r"(?:/contexts/[^/]+)?/subjects/[^/]+/versions/?")
WRITING: Final = frozenset({Operation.WRITE, Operation.DELETE, Operation.COMPATIBILITY_WRITE, Operation.MODE_WRITE})
METHODS: Final = ("GET", "POST", "PUT", "DELETE")
SLICE_S: Final = 0.002
"""How long records are replayed, in seconds, before other tasks of the event loop run."""
HEAVY_BYTES: Final = 8 << 10
"""A request with a larger body waits for smaller ones: comparing large schemas may take seconds."""
KEPT_BYTES_MAX: Final = 4 << 20
KEPT_ANSWER_BYTES_MAX: Final = 64 << 10
FORWARD_S: Final = 60.0
ATTEMPTS: Final = 3
LOG_AGAIN_S: Final = 5.0
ELECT_AGAIN_S: Final = 1.0
LEADER_S: Final = 10.0
"""How long a write waits for a leader, in seconds."""
UNKNOWN_LEADER: Final = error_answer(50004, "Leader not known.")
TIMED_OUT: Final = error_answer(50002, "Register operation timed out")
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
SURELY_NOT_APPENDED: Final = FENCED | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


class Registry:
    """One registry. identity: its address for other registries. tls: for requests forwarded to a leader with https."""

    def __init__(
        self,
        cluster: Cluster,
        config: RegistryConfig,
        identity: Identity,
        access: Access | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.image = Image()
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when an error keeps the registry from reading its topic; the result is the reason. All requests get this
        error from then on, as the image may lack schemas, or have deleted ones."""
        self._failure: Answer | None = None
        self.log = SchemasLog(cluster, config.log, self._replay, self._restart)
        self.election = Election(cluster, config.group, identity, self._assigned)
        self._cluster, self._config, self._tls = cluster, config, tls
        self._access = access or Access()
        self._version = Version(group_id=config.group.group_id)
        self._kept: dict[tuple[str, str, str], bytes] = {}
        self._kept_bytes = 0
        self._worker = ThreadPoolExecutor(1, "kcli-registry")
        self._image_turns, self._write_turns = Turns(), Turns()
        self._changed = asyncio.Event()
        self._logged_at = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the topic, read it to its end, and begin the election, which may create __consumer_offsets with all its
        partitions. Raises KcliError, TimeoutError."""
        async with asyncio.timeout(self._config.init_s):
            await self._repeated(self.log.open)
            self._begin(self._read())
            end = await self._repeated(self.log.end_offset)
            replayed = asyncio.ensure_future(self.log.replayed(end - 1, self._config.init_s))
            either: list[asyncio.Future[Any]] = [replayed, self.ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                replayed.cancel()
                raise KcliError(self.ended.result())
            replayed.result()
        self._begin(self._elect())
        self._version = self._version._replace(kafka_cluster_id=self._cluster.id)

    async def _repeated(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        while True:
            try:
                return await work()
            except Refused as error:
                if error.code not in PASSING:
                    raise
            await asyncio.sleep(RETRY_S)

    async def stop(self) -> None:
        """Leave the group, and stop reading."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.election.leave()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # reading the log

    async def _elect(self) -> None:
        while True:
            try:
                await self.election.run()
            except Exception:
                log.exception("the election goes on after an error")
            await asyncio.sleep(ELECT_AGAIN_S)

    async def _read(self) -> None:
        try:
            await self.log.read()
        except KcliError as error:
            reason = str(error)
        except Exception as error:
            log.exception("topic %s cannot be read", self._config.log.topic)
            reason = repr(error)
        log.error("this registry reads no more: %s", reason)
        self._failure = error_answer(503, f"this registry reads no more: {reason}")
        self.log.disown()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()
        self.ended.set_result(reason)
        await self.election.leave()

    async def _replay(self, records: Sequence[Record]) -> None:
        async with self._image_turns.turn():
            until = time.perf_counter() + SLICE_S
            for offset, key, value, timestamp_ms in records:
                if key is not None and key != NOOP[0]:
                    self._forget_answers()
                    skipped = self.image.skipped_count
                    self.image.replay(key, value, offset, timestamp_ms)
                    if self.image.skipped_count > skipped:
                        reason = self.image.skipped[-1].reason
                        log.warning("topic %s, offset %d is passed over: %s", self._config.log.topic, offset, reason)
                if time.perf_counter() > until:
                    await asyncio.sleep(0)
                    until = time.perf_counter() + SLICE_S

    def _restart(self) -> None:
        self.image = Image()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0

    # answers

    def answer_now(self, request: Request, peer: str) -> bytes | Answer | None:  # noqa: ARG002
        """Return the answer to a point lookup; None for another request, or one whose login must be checked."""
        if self._failure is not None:
            return self._failure
        if request.method != "GET" or request.body:
            return None
        headers = request.headers
        user = self._access.known_user(headers.get("authorization", ""))
        if user is None:
            return None
        if self._access.asks_for_subjects and (refusal := self._refusal(request, user)) is not None:
            return refusal
        key = request.path, request.query, headers.get("accept", "")
        if (kept := self._kept.get(key)) is not None:
            return kept
        if not (LOOKUP.fullmatch(request.path) and PLAIN_QUERY.fullmatch(request.query)):
            return None
        answer = handle(self.image, request, self._config.limits, self._version)
        if not isinstance(answer, Answer):
            return None
        return self._keep(key, answer)

    def _keep(self, key: tuple[str, str, str], answer: Answer) -> bytes:
        data = encode(answer)
        size = len(data) + sum(map(len, key))
        if answer.status == 200 and size <= KEPT_ANSWER_BYTES_MAX:
            if self._kept_bytes + size > KEPT_BYTES_MAX:
                self._forget_answers()
            self._kept[key] = data
            self._kept_bytes += size
        return data

    async def answer(self, request: Request, peer: str) -> Answer:  # noqa: ARG002
        """Return the answer to any request; if the request makes a change, after the change is replayed."""
        if self._failure is not None:
            return self._failure
        if request.method == "HEAD":
            request = request._replace(method="GET")
        user = await self._access.user(request.headers.get("authorization", ""))
        if user is None:
            return unauthorized()
        if (refusal := self._refusal(request, user)) is not None:
            return refusal
        if request.method == "OPTIONS":
            return self._options(request)
        if operation_of(request) not in WRITING:
            found = await self._decide(request, user)
            assert isinstance(found, Answer), "a request that only reads"
            return found
        try:
            async with asyncio.timeout(self._config.log.timeout_s + LEADER_S + FORWARD_S):
                return await self._write(request, user)
        except TimeoutError:
            return TIMED_OUT

    def _refusal(self, request: Request, user: str) -> Answer | None:
        if not self._access.asks_for_subjects:
            return None
        operation, subject = operation_of(request), subject_of(request, self.image)
        if operation == Operation.DESCRIBE:
            return None
        if (of_id := OF_ID.fullmatch(request.path)) is not None:
            # A user who may read one subject with this id may read its schema, whatever subject the query names.
            subjects = self._subjects_of(of_id, request)
            allowed = any(self._access.allows(user, operation, each) for each in (None, *subjects))
            return None if allowed else refusal(denied(operation, None))
        return None if self._access.allows(user, operation, subject) else refusal(denied(operation, subject))

    def _subjects_of(self, of_id: re.Match[str], request: Request) -> list[str]:
        path = f"{of_id[1] or ''}/schemas/ids/{of_id[2]}/subjects"
        found = handle(self.image, Request("GET", path, request.query, {}, b""), self._config.limits, self._version)
        if not isinstance(found, Answer) or found.status != 200:
            return []
        subjects = json.loads(found.body)
        return [str(each) for each in subjects]

    def _options(self, request: Request) -> Answer:
        known = [each for each in METHODS if is_known(request._replace(method=each, body=b""))]
        if not known:
            return error_answer(404, "HTTP 404 Not Found")
        if "GET" in known:
            known.append("HEAD")
        return Answer(200, b"", headers={"Allow": ",".join([*known, "OPTIONS"])})

    async def _decide(self, request: Request, user: str) -> Answer | Change:
        """Return the answer to a request, or the change that it makes, by the image. Called in the worker."""
        may_read = partial(self._access.allows, user, Operation.READ)
        async with self._image_turns.turn(is_heavy=_is_heavy(request)):
            work = asyncio.get_running_loop().run_in_executor(
                self._worker, handle, self.image, request, self._config.limits, self._version, may_read
            )
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # the thread cannot be stopped: the image must not change before it is done
                with suppress(Exception):
                    await work
                raise

    # writes

    async def _write(self, request: Request, user: str) -> Answer:
        for _ in range(ATTEMPTS):
            assigned = await self._leader()
            if assigned.leader is None or (is_forwarded(request) and not assigned.is_self):
                return UNKNOWN_LEADER
            if not assigned.is_self:
                return await self._forward(request, user, assigned.leader)
            async with self._write_turns.turn(is_heavy=_is_heavy(request)):
                answer = await self._change(request, user)
            if answer is not None:
                return answer
        return TIMED_OUT

    async def _leader(self) -> Assigned:
        """Return the leader; wait for one up to LEADER_S seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEADER_S):
                while True:
                    assigned = self.election.assigned
                    if assigned.is_self and not self.election.is_confirmed:
                        self.election.doubt()
                    elif assigned.leader is not None:
                        return assigned
                    self._changed.clear()
                    await self._changed.wait()
        return Assigned(None, is_self=False)

    async def _forward(self, request: Request, user: str, leader: Identity) -> Answer:
        if request.method == "POST" and REGISTERING.fullmatch(request.path):
            found = await self._decide(request, user)
            if isinstance(found, Answer) and found.status == 200:
                return found
        try:
            return await forward(request, leader, self._tls, FORWARD_S)
        except NoAnswer as error:
            now = time.monotonic()
            if now - self._logged_at > LOG_AGAIN_S:
                self._logged_at = now
                log.warning("%s %s is not forwarded: %s", request.method, request.path, error)
            self.election.doubt()
            return error_answer(50003, "Error while forwarding register schema request to the leader")

    async def _change(self, request: Request, user: str) -> Answer | None:
        """Append and replay the change of a request; return the answer. None if nothing was changed, and the caller
        must try the request again."""
        is_repeatable = request.method == "POST" and REGISTERING.fullmatch(request.path) is not None
        try:
            if not self.log.is_owned:
                await self.log.fence()
            if not (self.election.assigned.is_self and self.election.is_confirmed):
                return None
            found = await self._decide(request, user)
            if isinstance(found, Answer):
                return found
            await self.log.append(found.records)
        except NotAppended as error:
            log.warning("%s %s: %s", request.method, request.path, error)
            self.election.doubt()
            if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                return error_answer(42209, "Register operation failed because schema is too large")
            if error.code in SURELY_NOT_APPENDED or (is_repeatable and error.code is None):
                return None
            return error_answer(50001, "Register schema operation failed while writing to the Kafka store")
        except TimeoutError:
            return TIMED_OUT
        return found.answer

    def _assigned(self, assigned: Assigned) -> None:
        self._changed.set()
        if not assigned.is_self:
            self.log.disown()
        elif not self.log.is_owned and not self._write_turns.is_taken:
            self._begin(self._take_over())

    async def _take_over(self) -> None:
        """Read the log to its end, as the new leader, before the first write comes."""
        async with self._write_turns.turn():
            if self.log.is_owned or not self.election.assigned.is_self:
                return
            try:
                await self.log.fence()
            except (NotAppended, TimeoutError) as error:
                log.warning("this registry leads, but cannot write yet: %s", error)
            else:
                log.info(
                    "this registry leads: topic %s is read up to offset %d",
                    self._config.log.topic,
                    self.log.next_offset,
                )


def _is_heavy(request: Request) -> bool:
    return len(request.body) > HEAVY_BYTES
