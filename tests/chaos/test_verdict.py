"""The verdict of the chaos run: it finds nothing in a sound history, and each kind of broken promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.protocol.topic_partition import TopicPartition
from tests.chaos import verdict as promises
from tests.chaos.history import NO_OFFSET, History, Outcome, Sent, Transaction
from tests.chaos.verdict import INPUT, LEDGER, ORDERS, OUTPUT

Log = dict[TopicPartition, list[tuple[int, str]]]
A, B, MONEY = TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1), TopicPartition(LEDGER, 0)


def well() -> tuple[History, Log]:
    """Return a sound history and log with some of everything. Record 2 of i0 was never acknowledged and is not in the
    log."""
    log: Log = {
        A: [(0, "i0 0"), (1, "i1 0"), (3, "i0 1"), (4, "i0 3")],
        B: [(0, "i0 0")],
        MONEY: [(0, "t0 0 0"), (1, "t0 0 1"), (6, "t0 3 0")],
        TopicPartition(LEDGER, 1): [(5, "t0 0 2")],
        TopicPartition(INPUT, 0): [(0, "feeder 0"), (1, "feeder 1")],
        TopicPartition(OUTPUT, 0): [(0, "feeder 0"), (2, "feeder 1")],
    }
    history = History()
    history.sent["i0", A] = Sent(4, {0: 0, 1: 3, 3: 4})
    history.sent["i1", A] = Sent(1, {0: NO_OFFSET})
    history.sent["i0", B] = Sent(1, {})
    history.transactions["t0"] = {
        0: Transaction({MONEY: [0, 1], TopicPartition(LEDGER, 1): [2]}, Outcome.COMMITTED),
        1: Transaction({MONEY: [0]}, Outcome.ABORTED),
        2: Transaction({MONEY: [0, 1]}, Outcome.UNKNOWN),
        3: Transaction({MONEY: [0]}, Outcome.UNKNOWN),
        4: Transaction({}, Outcome.COMMITTED),
    }
    history.tails["tail"] = {place: list(log[place]) for place in (A, B)}
    history.groups["group"] = {place: dict(log[place]) for place in (A, B)}
    return history, log


def test_is_silent_where_all_is_well() -> None:
    assert not any(promises.verdict(*well(), {}).values())


def lose(history: History, log: Log) -> None:
    del log[A][2]
    forget_readers(history)


def move(history: History, log: Log) -> None:
    log[A][2] = (2, "i0 1")
    forget_readers(history)


def double(history: History, log: Log) -> None:
    log[A].append((5, "i0 3"))
    forget_readers(history)


def invent(history: History, log: Log) -> None:
    log[B].append((1, "i0 1"))
    forget_readers(history)


def swap(history: History, log: Log) -> None:
    log[A][2:] = [(3, "i0 3"), (4, "i0 1")]
    history.sent["i0", A].acked = {0: 0}
    forget_readers(history)


def tear(history: History, log: Log) -> None:
    log[TopicPartition(LEDGER, 1)].clear()


def show_aborted(history: History, log: Log) -> None:
    log[MONEY].insert(2, (3, "t0 1 0"))


def show_half_of_unknown(history: History, log: Log) -> None:
    log[MONEY].insert(2, (3, "t0 2 1"))


def invent_transaction(history: History, log: Log) -> None:
    log[MONEY].append((9, "t0 9 0"))


def skip(history: History, log: Log) -> None:
    del history.tails["tail"][A][1]


def see_twice(history: History, log: Log) -> None:
    history.tails["tail"][A].insert(1, (0, "i0 0"))


def stop_short(history: History, log: Log) -> None:
    history.tails["tail"][A].pop()


def skip_in_group(history: History, log: Log) -> None:
    del history.groups["group"][A][3]


def see_what_is_gone(history: History, log: Log) -> None:
    history.groups["group"][A][2] = "i0 7"


def see_another(history: History, log: Log) -> None:
    history.groups["group"][A][3] = "i0 2"


def process_twice(history: History, log: Log) -> None:
    log[TopicPartition(OUTPUT, 0)].append((4, "feeder 1"))


def never_process(history: History, log: Log) -> None:
    log[TopicPartition(OUTPUT, 0)].pop()


def tell(history: History, log: Log) -> None:
    history.found_wrong("a node ended by itself")


def forget_readers(history: History) -> None:
    """They would complain as well."""
    history.tails.clear()
    history.groups.clear()


WRONGS: dict[Callable[[History, Log], None], str] = {
    lose: "no acknowledged record lost or doubled",
    move: "no acknowledged record lost or doubled",
    double: "no acknowledged record lost or doubled",
    invent: "no acknowledged record lost or doubled",
    swap: "order in each partition",
    tear: "transactions all or nothing",
    show_aborted: "transactions all or nothing",
    show_half_of_unknown: "transactions all or nothing",
    invent_transaction: "transactions all or nothing",
    skip: "consumers see every offset, once and in order",
    see_twice: "consumers see every offset, once and in order",
    stop_short: "consumers see every offset, once and in order",
    skip_in_group: "groups see every offset",
    see_what_is_gone: "groups see every offset",
    see_another: "groups see every offset",
    process_twice: "each input processed exactly once",
    never_process: "each input processed exactly once",
    tell: "nothing went wrong on the way",
}


@pytest.mark.parametrize("wrong", WRONGS, ids=lambda wrong: wrong.__name__)
def test_notices(wrong: Callable[[History, Log], None]) -> None:
    history, log = well()
    wrong(history, log)
    found = promises.verdict(history, log, {})
    assert len(found[WRONGS[wrong]]) >= 1, found
    others = {name for name, said in found.items() if said} - {WRONGS[wrong]}
    assert others <= {"order in each partition"}, found


def test_notices_replicas_that_differ(tmp_path: Path) -> None:
    for node, segments in {1: [b"one", b"two"], 2: [b"onetwo"], 3: [b"one"]}.items():
        (tmp_path / str(node)).mkdir()
        for number, data in enumerate(segments):
            (tmp_path / str(node) / f"{number:020}.log").write_bytes(data)
    places = {node: tmp_path / str(node) for node in (1, 2, 3)}
    (found,) = promises.unequal_replicas({A: places})
    assert found == "orders-0: node 1 has 6 bytes, node 2 has 6 bytes, node 3 has 3 bytes"
    assert not [*promises.unequal_replicas({A: {1: places[1], 2: places[2]}})]


def test_says_how_many_more_there_are() -> None:
    assert promises.not_all(["x"] * 25) == ["x"] * 20 + ["and 5 more"]
