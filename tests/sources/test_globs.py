from __future__ import annotations

import pytest

from rekindle.sources.globs import compiled, expanded, is_glob


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.csv", ["a.csv", ".csv", "_a.csv", "a\nb.csv"], ["a.csv.gz", "acsv"]),
        ("?.csv", ["a.csv", "ü.csv"], [".csv", "ab.csv"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x", "x"]),
        ("[^a-c]x", ["dx", "^x"], ["ax"]),
        ("[!a]x", ["bx", "!x"], ["ax"]),
        ("[a^!]x", ["ax", "^x", "!x"], ["bx"]),
        ("[]a]x", ["]x", "ax"], ["x"]),
        ("[.$]x", [".x", "$x"], ["ax"]),
        ("*.{json,txt}", ["a.json", "a.txt"], ["a.csv", "a.{json,txt}"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "ad"]),
        ("{,x}y", ["y", "xy"], ["x"]),
        ("\\*\\{a\\}", ["*{a}"], ["x{a}", "a"]),
        ("a+(b)|c.d", ["a+(b)|c.d"], ["aab", "a+(b)|cxd"]),
        ("[{,}]", ["{", ",", "}"], ["[{,}]"]),
    ],
)
def test_a_name_matches_as_hadoop_has_it(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [name for name in (*matching, *others) if compiled(pattern).fullmatch(name)] == matching


def test_braces_may_hold_slashes() -> None:
    assert expanded("/in/{a,b/{c,d}}/*") == ["/in/a/*", "/in/b/c/*", "/in/b/d/*"]
    assert expanded("/in/\\{a,b\\}") == ["/in/\\{a,b\\}"]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("{a,b", "not closed"), ("a\\", "nothing follows"), ("[a", "not closed"), ("[^", "not closed"), ("[b-a]", "bad")],
)
def test_a_pattern_that_is_not_well_formed_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compiled(pattern)


def test_what_spark_takes_for_a_pattern() -> None:
    assert all(is_glob(f"/a{letter}b") for letter in "{}[]*?\\")
    assert not is_glob("/a b/c%20,d^!-ü")
