"""The REST API of Kafka Connect 4.3: requests to the herder's operations, results and errors to answers.

`Api` has a table of all paths and methods. A request that another worker must handle is forwarded: at most twice, as
`forward` in its query says. Source: ConnectorsResource, ConnectorPluginsResource, RootResource, LoggingResource,
InternalClusterResource, HerderRequestHandler, ConnectExceptionMapper.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote

from kcli.connect.engine.turn import trace_of
from kcli.connect.plugins import Plugins, PluginType, TaskId
from kcli.connect.topics.configs import Restart, TargetState
from kcli.connect.topics.json_values import texts_of
from kcli.connect.worker.errors import BadRequest, Conflict, Forbidden, NotFound, RestError
from kcli.connect.worker.herder import Herder, NotHere
from kcli.connect.worker.loggers import LEVELS
from kcli.connect.worker.offsets import offsets_of_json
from kcli.connect.worker.validation import UnknownConnector, plugin_config
from kcli.errors import KcliError
from kcli.java.values import java_integer, java_trim
from kcli.service.http_client import NoAnswer
from kcli.service.json_text import BadJson, Json, dumps, loads
from kcli.service.messages import JSON, Answer, Request, error_answer

log = logging.getLogger("kcli.connect")
VERSION: Final = "4.3.0"
COMMIT: Final = ""
INTERNAL_ERROR: Final = 500
LISTED: Final = (
    PluginType.SINK,
    PluginType.SOURCE,
    PluginType.TRANSFORMATION,
    PluginType.PREDICATE,
    PluginType.CONVERTER,
    PluginType.HEADER_CONVERTER,
)
"""The order in which the REST API lists plug-ins."""
BUSY: Final = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
TWO_HOPS: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
Forward = Callable[[str, Request], Awaitable[Answer]]
"""Sends a request to the worker at a URL. Raises NoAnswer."""
Allows = Callable[[Request], None]
"""Checks the signature of an internal request. Raises RestError."""


class Call(NamedTuple):
    """A request with what its path and query say."""

    request: Request
    parts: Mapping[str, str]
    query: Mapping[str, Sequence[str]]

    def part(self, name: str) -> str:
        """Return a part of the path."""
        return self.parts[name]

    def flag(self, name: str) -> bool:
        """Return whether the query has a parameter with the value true."""
        return self.query.get(name, ["false"])[0].lower() == "true"

    def json(self, *, of_texts: bool = False) -> Json:
        """Return the body. of_texts: whether it is one of configurations, where a number is its text. Raises
        RestError, as Kafka's worker does for a body without a Content-Type: a web page can send one to this worker
        from anywhere, with no preflight request of its browser."""
        if self.request.body and "content-type" not in self.request.headers:
            raise _status(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        try:
            return loads(self.request.body, numbers_as_text=of_texts)
        except BadJson as error:
            raise RestError(str(error)) from None

    def properties(self) -> dict[str, str | None]:
        """Return the body, a map of texts. Raises RestError."""
        found = texts_of(self.json(of_texts=True))
        if found is None:
            raise RestError("Cannot deserialize the body: it is no JSON object whose values are texts")
        return found

    @property
    def task(self) -> TaskId:
        """The task of the path. Raises NotFound."""
        number = java_integer(self.parts["task"])
        if number is None:
            raise NotFound("HTTP 404 Not Found")
        return TaskId(self.parts["connector"], number)


Handle = Callable[[Call], Awaitable[Answer]]


class Api:
    """The REST API of a worker. about: what GET / answers. forward, allows: see Forward, Allows. scheme: http or
    https."""

    def __init__(
        self,
        herder: Herder,
        plugins: Plugins,
        about: Callable[[], Mapping[str, str]],
        forward: Forward,
        allows: Allows,
        scheme: str = "http",
        tracking: tuple[bool, bool] = (True, True),
    ) -> None:
        self._herder, self._plugins, self._about = herder, plugins, about
        self._forward, self._allows, self._scheme = forward, allows, scheme
        self._tracks, self._resets = tracking
        self._routes = self._table()

    def _table(self) -> Sequence[tuple[re.Pattern[str], Mapping[str, Handle]]]:
        """Return the paths with the methods that they have."""
        return (
            _route("/", GET=self._root),
            _route("/health", GET=self._health),
            _route("/connectors", GET=self._connectors, POST=self._create),
            _route("/connectors/{connector}", GET=self._info, DELETE=self._delete),
            _route("/connectors/{connector}/config", GET=self._config, PUT=self._put_config, PATCH=self._patch_config),
            _route("/connectors/{connector}/status", GET=self._status),
            _route("/connectors/{connector}/restart", POST=self._restart),
            _route("/connectors/{connector}/pause", PUT=self._pause),
            _route("/connectors/{connector}/resume", PUT=self._resume),
            _route("/connectors/{connector}/stop", PUT=self._stop),
            _route("/connectors/{connector}/tasks", GET=self._tasks, POST=self._put_tasks),
            _route("/connectors/{connector}/fence", PUT=self._fence),
            _route("/connectors/{connector}/tasks/{task}/status", GET=self._task_status),
            _route("/connectors/{connector}/tasks/{task}/restart", POST=self._restart_task),
            _route("/connectors/{connector}/topics", GET=self._topics),
            _route("/connectors/{connector}/topics/reset", PUT=self._reset_topics),
            _route(
                "/connectors/{connector}/offsets",
                GET=self._offsets,
                PATCH=self._alter_offsets,
                DELETE=self._reset_offsets,
            ),
            _route("/connector-plugins", GET=self._plugins_list),
            _route("/connector-plugins/{plugin}/config", GET=self._plugin_config),
            _route("/connector-plugins/{plugin}/config/validate", PUT=self._validate),
            _route("/admin/loggers", GET=self._loggers),
            _route("/admin/loggers/{logger}", GET=self._logger, PUT=self._set_logger),
        )

    async def answer(self, request: Request) -> Answer:
        """Return the answer to a request."""
        try:
            return await self._route(request)
        except RestError as error:
            return error_answer(error.status, self._herder.hidden(str(error)), error.status)
        except KcliError as error:
            return error_answer(INTERNAL_ERROR, self._herder.hidden(str(error)), INTERNAL_ERROR)
        except Exception as error:  # noqa: BLE001 (a bug of ours is one answer)
            # not log.exception: a traceback may have values of config providers
            log.error("%s %s: %s", request.method, request.path, self._herder.hidden(trace_of(error)))  # noqa: TRY400
            return error_answer(INTERNAL_ERROR, "Internal Server Error", INTERNAL_ERROR)

    async def _route(self, request: Request) -> Answer:
        found = [
            (methods, match)
            for regex, methods in self._routes
            if (match := regex.fullmatch(request.path.rstrip("/") or "/"))
        ]
        if not found:
            raise NotFound("HTTP 404 Not Found")
        methods, match = found[0]
        if request.method == "OPTIONS":
            allowed = [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]
            return Answer(200, b"", headers={"Allow": ",".join(sorted(allowed))})
        handle = methods.get("GET" if request.method == "HEAD" else request.method)
        if handle is None:
            return error_answer(405, "HTTP 405 Method Not Allowed", 405)
        self._check_types(request)
        parts = {name: unquote(text) for name, text in match.groupdict().items()}
        call = Call(request, parts, parse_qs(request.query, keep_blank_values=True))
        try:
            return await handle(call)
        except NotHere as elsewhere:
            return await self._elsewhere(call, elsewhere.url)

    def _check_types(self, request: Request) -> None:
        accepted = request.headers.get("accept", "*/*")
        kinds = {each.partition(";")[0].strip() for each in accepted.split(",")}
        if not kinds & {"*/*", "application/*", JSON}:
            raise _status(HTTPStatus.NOT_ACCEPTABLE)
        sent = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if request.body and sent != JSON:
            raise _status(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

    async def _elsewhere(self, call: Call, url: str | None) -> Answer:
        """Forward a request; the worker that gets it may forward it once more."""
        hops = call.query.get("forward", [None])[0]
        if hops is not None and hops.lower() != "true":
            raise Conflict(TWO_HOPS)
        if url is None:
            raise Conflict(BUSY)
        request = call.request
        others = [part for part in request.query.split("&") if part and not part.startswith("forward=")]
        query = "&".join([f"forward={'true' if hops is None else 'false'}", *others])
        kept = {name: text for name, text in request.headers.items() if name in ("authorization", "content-type")}
        try:
            found = await self._forward(url, request._replace(query=query, headers={**kept, "accept": JSON}))
        except NoAnswer as error:
            raise RestError(f"IO Error trying to forward REST request: {error}") from None
        headers = {name.title(): found.headers[name] for name in ("location",) if name in found.headers}
        return Answer(found.status, found.body, found.content_type, headers)

    # the root

    async def _root(self, _call: Call) -> Answer:
        return _json(self._about())

    async def _health(self, _call: Call) -> Answer:
        return _json({"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."})

    # connectors

    async def _connectors(self, call: Call) -> Answer:
        names = self._herder.names()
        if "expand" not in call.query:
            return _json(names)
        known = {"status": self._herder.status, "info": self._herder.info}
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            try:
                found[name] = {each: known[each](name) for each in call.query["expand"] if each in known}
            except NotFound:
                continue
        return _json(found)

    async def _create(self, call: Call) -> Answer:
        found = call.json(of_texts=True)
        if not isinstance(found, dict):
            raise RestError("Cannot construct instance of `CreateConnectorRequest`: no JSON object")
        unknown = found.keys() - {"name", "config", "initial_state"}
        if unknown:
            raise RestError(
                f'Unrecognized field "{min(unknown)}" (class CreateConnectorRequest), not marked as ignorable'
            )
        properties = texts_of(found.get("config"))
        if properties is None:
            raise RestError("the request has no config")
        state, name = found.get("initial_state"), found.get("name")
        if state is not None and str(state).upper() not in ("RUNNING", "PAUSED", "STOPPED"):
            raise RestError(f"No enum constant: initial_state {state}")
        target = {"RUNNING": TargetState.STARTED}.get(
            str(state).upper(), None if state is None else TargetState(str(state).upper())
        )
        name = "" if name is None else java_trim(str(name))
        _, info = await self._herder.put(name, _named(name, properties), target, replaces=False)
        return self._created(call, name, info)

    async def _info(self, call: Call) -> Answer:
        return _json(self._herder.info(call.part("connector")))

    async def _config(self, call: Call) -> Answer:
        return _json(self._herder.config(call.part("connector")))

    async def _put_config(self, call: Call) -> Answer:
        name = call.part("connector")
        is_new, info = await self._herder.put(name, _named(name, call.properties()), replaces=True)
        return self._created(call, name, info) if is_new else _json(info)

    def _created(self, call: Call, name: str, info: object) -> Answer:
        host = call.request.headers.get("host", "")
        return _json(info, 201, Location=f"{self._scheme}://{host}/connectors/{quote(name, safe='')}")

    async def _patch_config(self, call: Call) -> Answer:
        return _json(await self._herder.patch(call.part("connector"), call.properties()))

    async def _delete(self, call: Call) -> Answer:
        await self._herder.delete(call.part("connector"))
        return _nothing()

    async def _status(self, call: Call) -> Answer:
        return _json(self._herder.status(call.part("connector")))

    async def _restart(self, call: Call) -> Answer:
        request = Restart(call.part("connector"), call.flag("onlyFailed"), call.flag("includeTasks"))
        if not request.only_failed and not request.include_tasks:
            await self._herder.restart_connector(request.connector)
            return _nothing()
        return _json(await self._herder.restart(request), 202)

    async def _pause(self, call: Call) -> Answer:
        await self._herder.set_target(call.part("connector"), TargetState.PAUSED)
        return Answer(202, b"")

    async def _resume(self, call: Call) -> Answer:
        await self._herder.set_target(call.part("connector"), TargetState.STARTED)
        return Answer(202, b"")

    async def _stop(self, call: Call) -> Answer:
        await self._herder.stop(call.part("connector"))
        return _nothing()

    async def _tasks(self, call: Call) -> Answer:
        return _json(self._herder.tasks(call.part("connector")))

    async def _task_status(self, call: Call) -> Answer:
        return _json(self._herder.task_status(call.task))

    async def _restart_task(self, call: Call) -> Answer:
        await self._herder.restart_task(call.task)
        return _nothing()

    async def _topics(self, call: Call) -> Answer:
        self._check_tracking(needs_reset=False)
        return _json(self._herder.topics(call.part("connector")))

    async def _reset_topics(self, call: Call) -> Answer:
        self._check_tracking(needs_reset=True)
        self._herder.reset_topics(call.part("connector"))
        return Answer(202, b"")

    def _check_tracking(self, *, needs_reset: bool) -> None:
        if not self._tracks:
            raise Forbidden("Topic tracking is disabled.")
        if needs_reset and not self._resets:
            raise Forbidden("Topic tracking reset is disabled.")

    async def _offsets(self, call: Call) -> Answer:
        return _json(await self._herder.offsets(call.part("connector")))

    async def _alter_offsets(self, call: Call) -> Answer:
        return _json(await self._herder.alter_offsets(call.part("connector"), offsets_of_json(call.json())))

    async def _reset_offsets(self, call: Call) -> Answer:
        return _json(await self._herder.alter_offsets(call.part("connector"), None))

    # internal requests between workers

    async def _put_tasks(self, call: Call) -> Answer:
        self._allows(call.request)
        found = call.json(of_texts=True)
        tasks = [texts_of(each) for each in found] if isinstance(found, list) else [None]
        if None in tasks:
            raise RestError("the configurations of tasks are no list of maps")
        await self._herder.put_tasks(call.part("connector"), [each for each in tasks if each is not None])
        return _nothing()

    async def _fence(self, call: Call) -> Answer:
        self._allows(call.request)
        await self._herder.fence(call.part("connector"))
        return _nothing()

    # plug-ins

    async def _plugins_list(self, call: Call) -> Answer:
        text = call.query.get("connectorsOnly", ["true"])[0]
        kinds = LISTED[:2] if text.lower() == "true" else LISTED
        listed = [{"class": each.name, "type": each.type, "version": each.version} for each in self._plugins.of(*kinds)]
        return _json(listed)

    async def _plugin_config(self, call: Call) -> Answer:
        version = call.query.get("version", [None])[0]
        return _json(plugin_config(self._plugins, call.part("plugin"), version))

    async def _validate(self, call: Call) -> Answer:
        properties, plugin = call.properties(), call.part("plugin")
        named = properties.get("connector.class")
        if named is not None and not _short(named).endswith(_short(plugin)):
            raise BadRequest(f"Included connector type {named} does not match request type {plugin}")
        try:
            return _json((await self._herder.validate(properties)).to_json())
        except (BadRequest, UnknownConnector) as error:
            raise RestError(f"org.apache.kafka.connect.runtime.rest.errors.BadRequestException: {error}") from None

    # loggers

    async def _loggers(self, _call: Call) -> Answer:
        return _json({name: level.to_json() for name, level in self._herder.loggers.all().items()})

    async def _logger(self, call: Call) -> Answer:
        level = self._herder.loggers.level(call.part("logger"))
        if level is None:
            raise NotFound(f"Logger {call.part('logger')} not found.")
        return _json(level.to_json())

    async def _set_logger(self, call: Call) -> Answer:
        text = call.properties().get("level")
        if text is None:
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        if text.upper() not in LEVELS:
            raise NotFound(f"invalid log level '{text}'.")
        if call.query.get("scope", ["worker"])[0].lower() == "cluster":
            await self._herder.set_level_of_all(call.part("logger"), text)
            return _nothing()
        return _json(self._herder.set_level(call.part("logger"), text.upper()))


def _named(name: str, properties: dict[str, str | None]) -> dict[str, str | None]:
    """Return a connector's configuration with its name. Raises BadRequest if it has another one."""
    included = properties.get("name")
    if included is None:
        return {**properties, "name": name}
    if included != name:
        raise BadRequest(f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return properties


def _short(name: str) -> str:
    return name.removesuffix("Connector") or name


def _json(value: object, status: int = 200, **headers: str) -> Answer:
    return Answer(status, dumps(value), JSON, headers)


def _nothing() -> Answer:
    return Answer(204, b"")


def _status(status: HTTPStatus) -> RestError:
    error = RestError(f"HTTP {status.value} {status.phrase}")
    error.status = status.value
    return error


def _route(path: str, **methods: Handle) -> tuple[re.Pattern[str], Mapping[str, Handle]]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), methods
