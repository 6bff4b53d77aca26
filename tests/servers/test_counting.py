"""Requests are counted under the name that a bill has for them."""

from __future__ import annotations

import pytest

from tests.servers.counting import kind_of


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
