"""Requests are counted under the name that a bill has for them."""

from __future__ import annotations

import pytest

from tests.servers.counting import kind_of, name_of


@pytest.mark.parametrize(
    ("method", "target", "copies", "kind"),
    [
        ("GET", "/bucket/a/b", False, "GET"),
        ("GET", "/bucket?list-type=2&prefix=a%2F", False, "LIST"),
        ("GET", "/bucket/?list-type=2", False, "LIST"),
        ("HEAD", "/bucket/a", False, "HEAD"),
        ("PUT", "/bucket/a", False, "PUT"),
        ("PUT", "/bucket/a", True, "COPY"),
        ("POST", "/bucket?delete", False, "DELETE many"),
        ("POST", "/bucket/?delete=", False, "DELETE many"),
        ("POST", "/bucket/a?uploads", False, "POST"),
        ("DELETE", "/bucket/a", False, "DELETE"),
    ],
)
def test_a_request_is_called_what_a_bill_calls_it(method: str, target: str, copies: bool, kind: str) -> None:
    assert kind_of(method, target, copies) == kind


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/bucket/a%20b/c?uploads", "a b/c"),
        ("/bucket/?list-type=2&prefix=a%2F", "a/"),
        ("/bucket?list-type=2", ""),
        ("/bucket/?delete=", ""),
    ],
)
def test_a_request_is_for_an_object_or_for_the_names_that_begin_so(target: str, name: str) -> None:
    assert name_of(target) == name
