"""The audit log: one line of kafka.authorizer.logger for each decision of the authorizer.

    INFO    the client may not do what it has requested
    DEBUG   the client may do what it has requested
    TRACE   checks for the authorized operations in a response, and denials after which another check may still allow
            the request

The logger is at INFO unless its level is changed (resource type BROKER_LOGGER). The text is made only for a line that
is written. If the log is written as JSON, a line also has the members of `Decision`. Source:
StandardAuthorizerData.logAuditMessage.
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
    """Write the audit line of a decision, if the logger is enabled for the line's level.

    access: what the principal wants to do with which resource. rule: the rule that allows or denies it.
    count: how often the request names the resource, or a function that returns this number for the resource's name.
    is_told: True: the level is INFO for a denial and DEBUG for a permission. False: the level is TRACE, because this
    check is one of several and does not decide the request alone. In Kafka this is logIfDenied and logIfAllowed of
    Action.
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
