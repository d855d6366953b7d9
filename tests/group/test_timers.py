"""Timers yield each key's last deadline, earliest first, after any delays, advances and cancellations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.group.timers import Timers

STEPS = st.lists(st.tuples(st.sampled_from(["schedule", "cancel", "take"]), st.integers(0, 3), st.integers(0, 20)))


@given(STEPS)
def test_against_a_dict(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int, tuple[int, int]] = Timers()
    model: dict[int, int] = {}
    for step, key, value in steps:
        if step == "schedule":
            timers.schedule(key, value, (key, value))
            model[key] = value
        elif step == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            taken = timers.take(value)
            due = [deadline for deadline in model.values() if deadline <= value]
            assert (taken is None) == (not due)
            if taken is not None:
                name, action = taken
                assert action == (name, min(due))
                assert model.pop(name) == min(due)
        assert timers.deadline_ms() == min(model.values(), default=None)


def test_heartbeats_leave_no_trace() -> None:
    timers: Timers[str, str] = Timers()
    for now_ms in range(0, 100_000, 3000):
        timers.schedule("session", now_ms + 10_000, "expire")
        assert timers.take(now_ms) is None
    assert len(timers._heap) == 1
