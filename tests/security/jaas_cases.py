"""Random JAAS configurations, and kcli's answers about them. A case is a question to SecurityOracle.java: `text`."""

from __future__ import annotations

import random
import re
from typing import Any

from kcli.security.jaas import InvalidJaasConfig, parse_jaas

Case = dict[str, Any]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
FIXED = [
    f'{PLAIN} required username="admin" password="a\\"b;=c" user_bob=\'it"s\';',
    f"{PLAIN} REQUIRED username=al-ice_$1.x password=s3cret ;",
    f"{PLAIN} required password=123;",
    f"{PLAIN} required password=a/b;",
    f"{PLAIN} required /* ; */ a=b // c=d\n e=f;",
    f"{PLAIN} required a=b; {PLAIN} optional;",
    f"{PLAIN} required a=b",
    f"{PLAIN} required a;",
    f"{PLAIN} needed a=b;",
    f"{PLAIN} ;",
    f"{PLAIN}",
    "",
    " // nothing",
    "; required;",
    "'' required;",
    f'{PLAIN} required a="\\101\\477\\0\\18\\n\\q";',
    f'{PLAIN} required a="not closed\nb="c";',
    f'{PLAIN} required a="b\\',
    f"{PLAIN} required 5=x -=y a=b;",
    f"{PLAIN} required a=-5;",
    f"{PLAIN} required é=ü \U0001f600=\u20ac;",
    f"{PLAIN} required a=b a=c;",
    "/**/ A requıred;",
    "A required a=b;;",
]
PIECES = [
    *("A", "required", "Optional", "a", "b", "=", "=", "a=b", 'c="d e"', ";", ";", " ", " ", "\n", "\r", "\t", "\x01"),
    *('"', "'", "\\", "\\n", "\\7", "\\07", "\\400", "\\377", "/", "//", "/*", "*/", "*", "-", ".", "1", "-1", "1.2.3"),
    *("x1", "$", "_", "é", "\x85", "\x7f", "\xa0", "\u2028", "\U0001f600", ",", ":", "@", "#", "{", "\0"),
]


def case(seed: int) -> Case:
    if seed < len(FIXED):
        return {"ask": "jaas", "text": FIXED[seed]}
    chance = random.Random(seed)
    if chance.random() < 0.4:
        return {"ask": "jaas", "text": "".join(chance.choices(PIECES, k=chance.randint(1, 20)))}
    text = ""
    for _ in range(chance.choice([1, 1, 2])):
        text += chance.choice(["A ", "a.b.C ", f"{PLAIN} ", '"q"']) + chance.choice(["required ", "SUFFICIENT\t"])
        for _ in range(chance.randint(0, 4)):
            value = "".join(chance.choices(PIECES, k=chance.randint(0, 4)))
            quote = chance.choice(['"', '"', "'", ""])
            text += f"{chance.choice(['username', 'user_x', 'k-1'])}={quote}{value}{quote} "
        text += ";"
    return {"ask": "jaas", "text": text}


def answers(of: Case) -> Any:
    """Return the login modules, or the reason for a refusal."""
    try:
        modules = parse_jaas(of["text"])
    except InvalidJaasConfig as refused:
        return str(refused)
    return [[each.name, f"LoginModuleControlFlag: {each.flag}", dict(each.options)] for each in modules]


def without_secrets(answer: Any) -> Any:
    """Return Kafka's answer in kcli's words: Kafka quotes the text in its reasons, and has no reason for an empty
    name."""
    if not isinstance(answer, str):
        return answer
    if answer == "null":
        return "Login module not specified in JAAS config"
    return re.sub(r" '.*'", "", answer, flags=re.DOTALL)
