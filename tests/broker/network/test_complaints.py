"""Warnings about clients: one line a kind and period, and each kind has its own count."""

from __future__ import annotations

import logging

import pytest

from kcli.broker.network.complaints import COMPLAINT_S, KINDS_MAX, Complaints

FAIL = "TLS handshakes fail"


def test_each_kind_has_its_count(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    complaints = Complaints(lambda: now_s)

    def lines() -> list[str]:
        found = list(caplog.messages)
        caplog.clear()
        return found

    with caplog.at_level(logging.WARNING, "kcli.broker"):
        complaints.add(FAIL, "closed, at CLIENT", ", from 1")
        for _ in range(3):
            complaints.add(FAIL, "no certificate, at MTLS", ", from 2")
        assert lines() == [
            f"{FAIL}: closed, at CLIENT, from 1 (1 since the last such line)",
            f"{FAIL}: no certificate, at MTLS, from 2 (1 since the last such line)",
        ]
        complaints.report()
        assert lines() == []
        now_s = COMPLAINT_S
        complaints.report()
        assert lines() == [f"{FAIL}: no certificate, at MTLS, from 2 (2 since the last such line)"], "told, at last"
        complaints.add(FAIL, "no certificate, at MTLS", ", from 3")
        assert lines() == []
        complaints.report(at_end=True)
        assert lines() == [f"{FAIL}: no certificate, at MTLS, from 3 (1 since the last such line)"]


def test_kinds_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A client chooses its certificate's subject, which may be the reason."""
    now_s = 0.0
    complaints = Complaints(lambda: now_s)
    with caplog.at_level(logging.WARNING, "kcli.broker"):
        for number in range(10 * KINDS_MAX):
            complaints.add(FAIL, f"CN={number}")
        assert len(caplog.messages) == len(complaints._kinds) == KINDS_MAX + 1
        now_s = COMPLAINT_S
        complaints.report()
        others = 9 * KINDS_MAX - 1
        assert caplog.messages[-1].endswith(f"({others} for this and other reasons since the last such line)")
        now_s += COMPLAINT_S
        complaints.report()
    assert not complaints._kinds
