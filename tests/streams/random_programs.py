"""Random programs: steps of the DSL one after the other, each on a stream or table that was made before."""

from __future__ import annotations

import random

from tests.streams.programs import Case

STREAM_STEPS = [
    's = {s}.filter("short"{name})',
    's = {s}.map_values("upper"{name})',
    's = {s}.select_key("first"{name})',
    's = {s}.flat_map_values("letters"{name})',
    "s = {s}.merge({other}{name})",
    "s = {s}.repartition({only_name})",
    's = {s}.{join}({other}, "pair", within=10, grace=5{name})',
    's = {s}.{stream_join}({t}, "pair"{name})',
    't = {s}.group_by("first").reduce("concat"{name})',
    't = {s}.group_by_key().reduce("max"{name})',
    "t = {s}.to_table({only_name})",
    '{s}.to("out-{i}"{name})',
]
TABLE_STEPS = [
    't = {t}.filter("short"{name})',
    't = {t}.filter_not("key_a"{name})',
    "s = {t}.to_stream({only_name})",
    't = {t}.{join}({other_t}, "pair"{name})',
]
JOINS = ["join", "left_join", "outer_join"]


def random_program(seed: int) -> Case:
    """Return the program of a seed."""
    chance = random.Random(seed)
    streams = [f"s{i}" for i in range(chance.randint(1, 3))]
    tables = [f"t{i}" for i in range(chance.randint(1, 2))]
    lines = [f'{each} = stream("in-{chance.randint(0, 9)}-{each}")' for each in streams]
    lines += [f'{each} = table("rows-{each}")' for each in tables]
    for i in range(chance.randint(4, 14)):
        step = chance.choice(STREAM_STEPS + TABLE_STEPS)
        name = f'name="n-{seed}-{i}"' if chance.random() < 0.25 else ""
        words = {
            "s": chance.choice(streams),
            "other": chance.choice(streams),
            "t": chance.choice(tables),
            "other_t": chance.choice(tables),
            "join": chance.choice(JOINS),
            "stream_join": chance.choice(JOINS[:2]),
            "name": f", {name}" if name else "",
            "only_name": name,
            "i": i,
        }
        line = step.format(**words)
        for kind, made in (("s", streams), ("t", tables)):
            if line.startswith(f"{kind} = "):
                made.append(f"{kind}{len(made)}")
                line = made[-1] + line[1:]
        lines.append(line)
    lines += [f'{each}.to("last-{each}")' for each in streams[-3:]]
    lines += [f'{each}.to_stream().to("last-{each}")' for each in tables[-2:]]
    return Case(f"random {seed}", lines)
