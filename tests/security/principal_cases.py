"""Random rules for the names of principals, and the names that kcli maps with them.

A case is a question to SecurityOracle.java: `rules`, and the `names` to map.
"""

from __future__ import annotations

import random
from typing import Any

from kcli.security.principal_mapping import InvalidMappingRule, InvalidReplacement, NoMatchingRule, PrincipalMapping

Case = dict[str, Any]

KAFKA_DOCS = r"""RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,
RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,
DEFAULT"""
NAMES = [
    "CN=kafka-server1, OU=KAFKA",
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=JohnDoe.8,ou=Sales,dc=acme,dc=com",
    "OU=JavaSoft,O=Sun Microsystems",
    "CN=a\\,b,O=Ünï,C=$1",
    "CN=,OU=ServiceUsers",
    "CN=Straße,OU=ΣΑΣ,O=İ",
    "",
]
PIECES = [
    *(
        "CN=",
        "cn",
        "O",
        ",",
        "a",
        "b",
        "$",
        "^",
        "|",
        ".",
        ".*",
        ".*?",
        "(.*?)",
        "(.*)",
        "([^,]*)",
        "([^,]+?)",
        "(a|b)?",
    ),
    *(
        "(CN|O)",
        "(?:CN)",
        "(?<who>[a-z]+)",
        r"\w+",
        r"(\w*)",
        r"\d",
        r"\D*",
        r"\s?",
        r"\S+",
        "[a-zA-Z]",
        "[^a-m=]",
        "[CO]",
    ),
    *(
        r"[\w.-]+",
        "[]-a]",
        r"[\d\s]",
        r"\.",
        r"\/",
        r"\=",
        r"\x3d",
        r"\u0043",
        r"\x{4E}",
        r"\Q.*\E",
        "x{2}",
        "[a-z]{1,3}",
    ),
    *(
        "(..){2,}",
        "(a+)*",
        "(?:a*)*",
        "()",
        "[$]",
        "[&a]",
        "ü",
        "(.+?)(,|$)",
        r"\t",
        "[a-c-e]",
        "[-=]",
        "[=-]",
        "[+--]",
    ),
]
BROKEN = ["|*", "(", ")", "[a", "{", "x{2", "a**", r"\q", "[b-a]", "(?<1>a)", "["]
REPLACEMENTS = [
    "$1",
    "$2",
    "$0",
    "$3",
    "$12",
    "$01",
    "x",
    "-",
    "$1@$2",
    "${who}",
    r"\$",
    r"\\",
    "$",
    "$a",
    "${no}",
    r"\/",
    " ",
    "é",
    "",
]


def case(seed: int) -> Case:
    """Random rules, and names that they may match."""
    chance = random.Random(seed)
    if seed < len(FIXED):
        return {"ask": "principal", "rules": FIXED[seed], "names": NAMES}
    separators = [",", ", ", " ,", ",\n", " "] if chance.random() < 0.2 else [",", ", "]
    rules = ""
    for _ in range(chance.choice([1, 1, 2, 3])):
        rules += (chance.choice(separators) if rules else "") + _rule(chance)
    names = chance.sample(NAMES, 3) + [
        "".join(chance.choices("CNO=, abAB1.", k=chance.randint(1, 12))) for _ in range(4)
    ]
    return {"ask": "principal", "rules": rules, "names": names}


def _rule(chance: random.Random) -> str:
    if chance.random() < 0.15:
        return chance.choice(["DEFAULT", "", "default", "RULE:", "RULE:a/b", "DEFAULT "])
    pieces = PIECES if chance.random() < 0.9 else [*PIECES, *BROKEN]
    pattern = "".join(chance.choices(pieces, k=chance.randint(1, 5)))
    if chance.random() < 0.6:
        pattern += chance.choice([".*", ".*$", "(.*)"])
    usual = ["$0", "$1" if "(" in pattern else "a", "b"] if chance.random() < 0.7 else REPLACEMENTS
    replacement = "".join(chance.choices(usual, k=chance.choice([1, 1, 2, 3])))
    return f"RULE:{pattern}/{replacement}/{chance.choice(['', '', 'L', 'U', 'x' if chance.random() < 0.1 else ''])}"


FIXED = [
    KAFKA_DOCS,
    "DEFAULT",
    "",
    " ",
    ",",
    "RULE:^CN=(.*?),.*$/$1/U",
    "RULE:.*/x/",
    r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT",
    r"RULE:^.*$/\/$0\//",
    "RULE:(?i)^cn=([a-z.0-9]*),.*/$1/L,RULE:(?i).*[^A-Y]/z/",
    "RULE:^CN=(.*?)/$1@$4@$5/,RULE:(.*)(.*)/$3$4-$1/",
    "RULE:.*/$1/",
]


def answers(of: Case) -> list[str | None] | None:
    """The name of each principal, None where there is none; None alone for rules that are refused.

    Raises InvalidReplacement.
    """
    try:
        mapping = PrincipalMapping(of["rules"])
    except InvalidReplacement:
        raise
    except InvalidMappingRule:
        return None
    return [_name(mapping, name) for name in of["names"]]


def _name(mapping: PrincipalMapping, name: str) -> str | None:
    try:
        return mapping.name(name)
    except NoMatchingRule:
        return None


def compared(of: Case, theirs: Any) -> int:
    """Assert that kcli answers as Kafka did. Return how many names were mapped alike."""
    try:
        ours = answers(of)
    except InvalidReplacement:
        return 0
    assert ours == (None if isinstance(theirs, str) else theirs), of["rules"]
    return len(theirs) if ours is not None else 0
