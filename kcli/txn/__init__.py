"""The transaction coordinator: exactly once, as far as it is decided in one place. No I/O and no clock: see
kcli.coordinator."""
