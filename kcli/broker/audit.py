"""The audit: one line of kafka.authorizer.logger for what the authorizer decides.

    INFO    the client may not do what it has requested
    DEBUG   the client may do it
    TRACE   checks for the authorized operations in a response, and denials after which another check may allow the same

The logger is at INFO unless its level is changed (resource type BROKER_LOGGER). The text is made only for a line that
is written; as JSON a line has the members of `Decision` as well. Source: StandardAuthorizerData.logAuditMessage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kcli.broker.config.loggers import LEVELS
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.security.audit import Decision
from kcli.security.authorizer import Access, Rule

LOGGER: Final = logging.getLogger("kafka.authorizer.logger")
LOGGER.setLevel(logging.INFO)
TRACE: Final = LEVELS["TRACE"]


def decided(call: Call, access: Access, rule: Rule, count: Callable[[str], int] | int, *, is_told: bool) -> None:
    """Write the line of a decision, where its level is on.

    count: how often the request names the resource, or a function that returns this number for the resource's name.
    is_told: True: the line is at INFO for a denial and at DEBUG for a permission; False: at TRACE, as the check is one
    of several and does not decide the request by itself. Kafka's Action has this as logIfDenied and logIfAllowed.
    """
    level = TRACE if not is_told else logging.DEBUG if rule.allowed else logging.INFO
    if LOGGER.isEnabledFor(level):
        call.is_audited = True
        times = count if isinstance(count, int) else count(access.resource_name)
        decision = Decision(access, rule, _api_name(call.header.api_key), times)
        LOGGER.log(level, "%s", decision, extra={"members": decision.members()})


def _api_name(api_key: int) -> str:
    """The name of an API as Kafka writes it: "FindCoordinator"."""
    return APIS[api_key].name.title().replace("_", "")
