"""The responses of kcli's controller to brokers and tools equal real Kafka's, see controller_cases.py."""

from __future__ import annotations

import json

from kcli.metadata.partition import from_uuid
from tests.metadata.controller_cases import ANSWERS, CASES, Side
from tests.metadata.node import NODE_ID
from tests.metadata.test_controller_handlers import ask, fresh


def test_the_answers_are_kafkas() -> None:
    broker = fresh()
    own = broker.image.brokers[NODE_ID]
    topic_id = from_uuid(broker.image.topics["a"].id)
    side = Side(broker.cluster_id, topic_id, from_uuid(own.directories[0]), {NODE_ID: own.epoch})
    for case, line in zip(CASES, ANSWERS.read_text().splitlines(), strict=True):
        api, version, request = case(side)
        assert side.known(api, ask(broker, api, version, **request)) == json.loads(line), (api, version, request)
