"""Options of a JVM, as the environment variable KAFKA_OPTS gives them to Kafka's."""

from __future__ import annotations

import shlex


def system_property(options: str, name: str) -> str | None:
    """Return the value of a system property that the options set with -D; of several, the last. None where they do not
    set it, or a quote in the options is not closed."""
    try:
        words = shlex.split(options)
    except ValueError:
        return None
    prefix = f"-D{name}="
    return next((word.removeprefix(prefix) for word in reversed(words) if word.startswith(prefix)), None)
