"""A node's requests to the active controller about itself: function calls if the active controller is in the same
process, else requests over the network. The function calls need no message classes, so that the only node of a cluster
does not import these at its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcli.broker.metadata.errors import NotController
from kcli.broker.network.peers import error_of
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer
from kcli.metadata.result import Refused

if TYPE_CHECKING:
    from kcli.broker.controller.active import ActiveController
    from kcli.broker.controller.channel import Leadership
    from kcli.broker.network.peers import Peer
    from kcli.metadata.directory_control import Assignments
    from kcli.metadata.registration import Broker as BrokerState
    from kcli.metadata.registration import Controller, Endpoint, VersionRange


class ControllerRequests:
    """The requests of one node to the active controller. Every method raises Unanswered, and Refused with the
    controller's error.

    here: the controller in this process, None if there is none. controller: the channel to the active controller.
    """

    def __init__(self, cluster_id: str, metadata: Leadership, here: ActiveController | None, controller: Peer) -> None:
        self._cluster_id, self._metadata = cluster_id, metadata
        self._active, self._controller = here, controller

    @property
    def _here(self) -> ActiveController | None:
        return self._active if self._metadata.is_leader else None

    async def register_controller(self, controller: Controller, timeout_s: float) -> None:
        """Register this node as a controller."""
        try:
            if (here := self._here) is not None:
                return await here.register_controller(controller)
        except NotController:
            pass
        await self._call(
            "controller_registration",
            timeout_s,
            controller_id=controller.id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=controller.zk_migration_ready,
            listeners=_listeners(controller.endpoints),
            features=_features(controller.features),
        )
        return None

    async def register_broker(self, state: BrokerState, previous_epoch: int, timeout_s: float) -> int:
        """Register this broker. Return its broker epoch. previous_epoch: the broker epoch at its last clean shutdown,
        -1 for none."""
        try:
            if (here := self._here) is not None:
                return await here.register_broker(state, previous_epoch)
        except NotController:
            pass
        answer = await self._call(
            "broker_registration",
            timeout_s,
            broker_id=state.id,
            cluster_id=self._cluster_id,
            incarnation_id=state.incarnation_id,
            listeners=_listeners(state.endpoints),
            features=_features(state.features),
            rack=state.rack,
            log_dirs=state.directories,
            previous_broker_epoch=previous_epoch,
        )
        epoch: int = answer.broker_epoch
        return epoch

    async def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        """Send a heartbeat of this broker. Return the response."""
        try:
            if (here := self._here) is not None:
                return await here.heartbeat(beat)
        except NotController:
            pass
        answer = await self._call(
            "broker_heartbeat",
            timeout_s,
            broker_id=beat.broker_id,
            broker_epoch=beat.broker_epoch,
            current_metadata_offset=beat.metadata_offset,
            want_fence=beat.wants_fence,
            want_shut_down=beat.wants_shutdown,
            offline_log_dirs=tuple(beat.offline),
            cordoned_log_dirs=None if beat.cordoned is None else tuple(beat.cordoned),
        )
        return HeartbeatAnswer(
            is_caught_up=answer.is_caught_up,
            is_fenced=answer.is_fenced,
            is_in_controlled_shutdown=False,
            should_shut_down=answer.should_shut_down,
        )

    async def assign_replicas(
        self, broker_id: int, broker_epoch: int, assignments: Assignments, timeout_s: float
    ) -> None:
        """Report to the controller in which log directories this broker's replicas are (AssignReplicasToDirs). The
        response is not returned: the metadata log shows which replicas' directories the controller has recorded."""
        try:
            if (here := self._here) is not None:
                await here.assign_replicas(broker_id, broker_epoch, assignments)
                return
        except NotController:
            pass
        await self._call(
            "assign_replicas_to_dirs",
            timeout_s,
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=[
                {
                    "id_": directory,
                    "topics": [
                        {"topic_id": topic_id, "partitions": [{"partition_index": each} for each in numbers]}
                        for topic_id, numbers in topics
                    ],
                }
                for directory, topics in assignments
            ],
        )

    async def _call(self, api: str, timeout_s: float, **fields: Any) -> Any:
        response = await self._controller.call(api, None, timeout_s=timeout_s, **fields)
        code = error_of(response)
        if code:
            raise Refused(code, getattr(response, "error_message", None) or code.name)
        return response


def _listeners(endpoints: Mapping[str, Endpoint]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "host": each.host, "port": each.port, "security_protocol": each.security_protocol}
        for each in endpoints.values()
    ]


def _features(features: Mapping[str, VersionRange]) -> list[dict[str, Any]]:
    return [
        {"name": name, "min_supported_version": least, "max_supported_version": most}
        for name, (least, most) in features.items()
    ]
