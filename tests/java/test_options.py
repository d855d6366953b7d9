"""System properties in the options of a JVM."""

from __future__ import annotations

from kcli.java.options import system_property


def test_system_properties() -> None:
    options = "-Xmx1G -Da.b=1 '-Dc=x y' -Da.b=2=3 -Dd= -De"
    found = [system_property(options, name) for name in ("a.b", "c", "d", "e", "f")]
    assert found == ["2=3", "x y", "", None, None]
    assert system_property("-Da=b '", "a") is None, "a quote that is not closed"
