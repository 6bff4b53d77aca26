"""What may be in a line of the log: bounded, without secrets, a trace once; and how it reads."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator

import pytest

from rekindle.logs import lines
from rekindle.logs.lines import LineMaker, as_json, as_text
from rekindle.redaction import HIDDEN, Redaction, secret_values

NOW_MS = 1_735_689_600_123


def record(message: object, *arguments: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("rekindle.x", logging.WARNING, "x.py", 1, message, arguments, None)
    made.__dict__.update(more)
    return made


@pytest.mark.parametrize(
    "text",
    [
        "host=db password=hunter22 dbname=x",
        "password = 'two words hunter22' x",
        '{"secret": "hunter22", "a": 1}',
        "postgresql://me:hunter22@db/x",
        "fs.s3a.secret.key=hunter22",
        "--conf spark.hadoop.fs.s3a.secret.key=hunter22",
        "aws_secret_access_key: hunter22",
        "Authorization: Bearer hunter22",
        "GET /x?api_key=hunter22&b=1",
        "sasl.password='hunter22'",
        "the value that is known, hunter22, alone",
        "jdbc:oracle:thin:scott/hunter22@//db:1521/orcl",
        "jdbc:oracle:oci:scott/hunter22@db",
        "postgresql://me:p@hunter22@db/x",
        "postgresql://me:p/hunter22@db/x",
        "https://acct.blob.core.windows.net/c?sv=2024&sig=hunter22%3D",
        "SharedAccessSignature=sv=2024&sig=hunter22hunter22hunter22%3D",
        "https://bucket.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=hunter22",
        "http://node:9864/webhdfs/v1/a?op=OPEN&delegation=hunter22",
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=hunter22==;EndpointSuffix=core.windows.net",
        "fs.azure.account.key.averylongaccountname.dfs.core.windows.net=hunter22",
        '{"access_token": "' + "A" * 2_000 + 'hunter22"}',
        '{"private_key": "-----BEGIN PRIVATE KEY-----\\n' + "A" * 2_000 + 'hunter22\\n-----END PRIVATE KEY-----"}',
        "-----BEGIN RSA PRIVATE KEY-----\nMIIhunter22\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIhunter22 and no end",
        r'{"body": "{\"password\": \"hunter22\"}"}',
        r'{"body": "{\"password\": \"hunter22',
        r'password="with \" hunter22"',
        "passphrase=hunter22",
        "DB_PASS=hunter22",
        "user=me&pass=hunter22",
        "password%3Dhunter22",
        "Authorization: Negotiate hunter22",
    ],
)
def test_secrets_are_hidden_wherever_they_show(text: str) -> None:
    hidden = Redaction({"hunter22"} if "known" in text else ())(text)

    assert "hunter22" not in hidden
    assert HIDDEN in hidden


def test_plain_words_stay_as_they_are() -> None:
    for text in (
        "Task count/0: [TASK_FAILED] KeyError: 'customer' at http://host:8080/a, 3 tokens, passwords are checked",
        "GET http://[::1]:8080/mail/me@host, jdbc:sqlserver://host:1433;user=me@host, abfss://container@acct/x",
        "401: Basic authentication is required, Bearer realm=x, bypass=1, sig=15, jdbc:oracle:thin:@db:1521:orcl",
    ):
        assert Redaction()(text) == text


def test_settings_say_by_their_names_what_is_secret() -> None:
    settings = {"DB_PASSWORD": "longenough", "TOKEN_FILE": "/run/token", "HOME": "/home/me", "API_TOKEN": "x"}
    settings |= {"PWD": "/home/me/jobs", "OLDPWD": "/home/me"}  # as every shell sets them

    assert secret_values(settings) == {"longenough"}


@pytest.mark.parametrize(
    "part",
    ["password", "_pass", 'password="', 'password=\\"', "token='\\", "://a:", "?sig=", "-----BEGIN PRIVATE KEY-----"],
)
def test_no_text_takes_long_however_often_it_seems_to_hold_a_secret(part: str) -> None:
    began = time.process_time()
    Redaction()(part * (1_000_000 // len(part)))
    assert time.process_time() - began < 30, "far more than it takes; a pattern that runs on would take hours"


def test_settings_of_connectors_are_secret_by_their_names() -> None:
    names = (
        "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.container.a.blob.core.windows.net",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "DB_PASS",
        "spark.ssl.keyPassphrase",
    )

    assert [name for name in names if not secret_values({name: "longenough"})] == []


def test_a_huge_text_is_cut_quickly_and_no_half_of_a_secret_is_left_at_the_cut() -> None:
    maker = LineMaker(Redaction({"hunter22hunter22"}))
    began = time.process_time()
    for at in range(1_980, 2_010):
        text = "x" * at + " hunter22hunter22 " + "password" * 2_000_000
        message = maker.line(NOW_MS, "INFO", "rekindle", text).message
        assert len(message) < lines.MESSAGE_LETTERS + 100
        assert "hunter" not in message
        assert "letters left out" in message
    assert time.process_time() - began < 60, "far more than it takes; a pattern that runs on would take hours"


def test_whatever_is_logged_makes_a_line() -> None:
    maker = LineMaker(Redaction())

    assert "do not fit" in maker.of_record(record("%d things", "no number")).message
    assert maker.of_record(record("half a pair: \ud800")).message.isprintable()
    assert maker.of_record(record({"not": "a text"})).message == "{'not': 'a text'}"


def test_a_trace_that_was_there_a_moment_ago_is_not_kept_again() -> None:
    maker = LineMaker(Redaction())

    first, again, other = (
        maker.of_record(record("x", trace=trace)) for trace in ("at 0x7f: boom", "at 0x8a1: boom", "at 7: bang")
    )

    assert first.trace == "at 0x7f: boom"
    assert other.trace == "at 7: bang"
    assert maker.of_record(record("x", trace="at 0x9f: boom")).trace == "(a trace that is above)"
    assert again.trace != ""


def test_a_line_reads_as_text_and_as_one_line_of_json() -> None:
    line = LineMaker(Redaction()).line(NOW_MS, "WARNING", "rekindle.x", "two\nlines", "main", "a\nb")

    assert as_text(line).startswith("2025-01-01T00:00:00.123Z WARNING rekindle.x: two")
    assert as_text(line).endswith("\n    a\n    b")
    assert "\n" not in as_json(line, job="bids")
    assert json.loads(as_json(line, job="bids")) == {
        "at": "2025-01-01T00:00:00.123Z",
        "level": "WARNING",
        "logger": "rekindle.x",
        "message": "two\nlines",
        "job": "bids",
        "thread": "main",
        "trace": "a\nb",
    }


def test_what_two_jobs_teach_at_the_same_time_is_hidden() -> None:
    redact = Redaction()

    def values() -> Iterator[str]:
        redact.learn(["first secret"])  # the other job, in the middle
        yield "second secret"

    redact.learn(values())

    assert redact("first secret, second secret") == f"{HIDDEN}, {HIDDEN}"
