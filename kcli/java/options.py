"""Options of a JVM, as the environment variable KAFKA_OPTS gives them to Kafka's JVM."""

from __future__ import annotations

import shlex


def system_property(options: str, name: str) -> str | None:
    """Return the value of a system property that the options set with -D; the last value if it is set several times.
    None if the options do not set the property, or a quote in them is not closed."""
    try:
        words = shlex.split(options)
    except ValueError:
        return None
    prefix = f"-D{name}="
    return next((word.removeprefix(prefix) for word in reversed(words) if word.startswith(prefix)), None)
