"""Variables of config providers in the configurations of connectors: `${file:/run/secrets:password}`.

They are replaced by the worker's providers where a connector is validated or runs. What is stored, shown and logged has
the variables as they are written, and `[hidden]` in place of a value that came from a provider. KIP-297.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kcli.connect.data.errors import ConnectError
from kcli.connect.topics.configs import Properties
from kcli.log.config import InvalidConfig
from kcli.log.config_providers import PROVIDERS, Resolved, has_variable, resolve


class Variables:
    """Replaces variables. worker: the worker's properties, whose config.providers are used. Callable from any
    thread."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._providers = {key: text for key, text in worker.items() if key.startswith(PROVIDERS)}
        self._secrets: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def __call__(self, properties: Properties) -> dict[str, str]:
        """Return properties with their variables replaced, without those that are null. Raises ConnectError."""
        own = {key: text for key, text in properties.items() if text is not None}
        if not any(has_variable(text) for text in own.values()):
            return own
        asked = {key: text for key, text in own.items() if not key.startswith(PROVIDERS)}  # it brings no providers
        try:
            found = resolve({**asked, **self._providers})
        except InvalidConfig as error:
            raise ConnectError(str(error)) from None
        with self._lock:
            self._secrets |= found.secrets
        return {**own, **{key: found.properties[key] for key in asked}}

    def hide(self, text: str) -> str:
        """Return a text with [hidden] in place of every value that a provider has given."""
        return Resolved({}, self._secrets).hide(text) if self._secrets else text
