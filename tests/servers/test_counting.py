"""Requests are counted under the name that a bill has for them."""

from __future__ import annotations

import pytest

from tests.servers.counting import each_of, kind_of, kind_on_azure, kind_on_google, name_of


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
    ("method", "target", "copies", "kind"),
    [
        ("GET", "/account/box/a", False, "GET"),
        ("GET", "http://account.blob.core.windows.net/box?restype=container&comp=list&prefix=a", False, "LIST"),
        ("HEAD", "/account/box/a", False, "HEAD"),
        ("HEAD", "/account/box?restype=container", False, "other"),
        ("PUT", "/account/box/a", False, "PUT"),
        ("PUT", "/account/box/a", True, "COPY"),
        ("PUT", "/account/box/a?comp=block&blockid=1", False, "PUT"),
        ("PUT", "/account/box/a?comp=blocklist", False, "PUT"),
        ("PUT", "/account/box/a?comp=lease", False, "other"),
        ("PUT", "/account/box/a?comp=metadata", False, "other"),
        ("DELETE", "/account/box/a", False, "DELETE"),
    ],
)
def test_a_request_to_azure_is_called_what_a_bill_calls_it(method: str, target: str, copies: bool, kind: str) -> None:
    assert kind_on_azure(method, target, copies) == kind


@pytest.mark.parametrize(
    ("method", "target", "copies", "kind"),
    [
        ("GET", "/storage/v1/b/box/o?prefix=a%2F", False, "LIST"),
        ("GET", "/storage/v1/b/box/o/a%2Fb?fields=size", False, "HEAD"),
        ("GET", "/storage/v1/b/box/o/a%2Fb?alt=media", False, "GET"),
        ("GET", "/download/storage/v1/b/box/o/a?alt=media", False, "GET"),
        ("GET", "/storage/v1/b/box", False, "HEAD"),
        ("POST", "/upload/storage/v1/b/box/o?uploadType=resumable", False, "PUT"),
        ("PUT", "/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=1", False, ""),
        ("POST", "/storage/v1/b/box/o/a/rewriteTo/b/box/o/b", False, "COPY"),
        ("POST", "/storage/v1/b/box/o/a/compose", False, "POST"),
        ("PATCH", "/storage/v1/b/box/o/a", False, "POST"),
        ("DELETE", "/storage/v1/b/box/o/a", False, "DELETE"),
        ("GET", "/box?list-type=2&prefix=a", False, "LIST"),
        ("PUT", "/box/a", True, "COPY"),
        ("PUT", "/box/a", False, "PUT"),
    ],
)
def test_a_request_to_google_is_called_what_a_bill_calls_it(method: str, target: str, copies: bool, kind: str) -> None:
    assert kind_on_google(method, target, copies) == kind


def test_requests_that_are_sent_together_are_counted_one_by_one() -> None:
    body = b"--b\r\nContent-Type: application/http\r\n\r\nDELETE http://host/storage/v1/b/box/o/a HTTP/1.1\r\n\r\n"
    body += b"--b\r\n\r\nGET /storage/v1/b/box/o/c HTTP/1.1\r\n\r\n--b--\r\n"
    together = [("DELETE", "/storage/v1/b/box/o/a"), ("GET", "/storage/v1/b/box/o/c")]
    assert list(each_of("POST", "/batch/storage/v1", body)) == together
    assert list(each_of("POST", "/storage/v1/b/box/o", body)) == [("POST", "/storage/v1/b/box/o")]


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
