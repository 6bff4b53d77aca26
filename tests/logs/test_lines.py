"""What may be in a line of the log: bounded, without secrets, a trace once; and how it reads."""

from __future__ import annotations

import json
import logging
import time

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
    ],
)
def test_secrets_are_hidden_wherever_they_show(text: str) -> None:
    hidden = Redaction({"hunter22"} if "known" in text else ())(text)

    assert "hunter22" not in hidden
    assert HIDDEN in hidden


def test_plain_words_stay_as_they_are() -> None:
    text = "Task count/0: [TASK_FAILED] KeyError: 'customer' at http://host:8080/a, 3 tokens, passwords are checked"

    assert Redaction()(text) == text


def test_settings_say_by_their_names_what_is_secret() -> None:
    settings = {"DB_PASSWORD": "longenough", "TOKEN_FILE": "/run/token", "HOME": "/home/me", "API_TOKEN": "x"}
    settings |= {"PWD": "/home/me/jobs", "OLDPWD": "/home/me"}  # as every shell sets them

    assert secret_values(settings) == {"longenough"}


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
