"""The English of the pages: no page uses a refused word, and the check finds one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.config import SETTINGS
from rekindle.history.events import KINDS
from tools import prose


@pytest.mark.parametrize("page", prose.PAGES, ids=lambda page: str(page.relative_to(prose.ROOT)))
def test_a_page_uses_no_refused_word(page: Path) -> None:
    assert [str(fault) for fault in prose.in_pages([page])] == []


def test_a_setting_and_a_kind_of_event_are_described_by_what_they_are() -> None:
    texts = [*(setting.metadata["doc"] for setting in SETTINGS.values()), *KINDS.values()]
    questions = ("whether", "what", "who", "where the ", "how", "why", "when", "which", "in how", "about how")
    assert [text for text in texts if text.lower().startswith(questions)] == []


def found(text: str) -> list[tuple[int, str]]:
    return [(fault.line, fault.word) for fault in prose.faults(prose.ROOT / "page.md", text)]


def test_a_refused_word_is_found_with_its_line() -> None:
    assert found("Fine.\nNobody was told, see DESIGN 6.\n") == [(2, "told"), (2, "Nobody"), (2, "DESIGN 6")]


def test_parts_of_words_are_not_refused() -> None:
    assert found("Amending a mentold behindhand.\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "```python\ntold = 1\n```\nFine.\n",
        "<!-- generated: errors -->\n| told |\n<!-- end generated -->\n",
        "The field `told` is [here](page.md#told).\n",
        "A reader is behind its producer.\n",
    ],
    ids=["a block of code", "a generated part", "code in a line, a link", "an exception"],
)
def test_code_generated_parts_and_exceptions_are_not_read(text: str) -> None:
    assert found(text) == []


def test_the_lines_after_a_block_of_code_keep_their_numbers() -> None:
    assert found("```sh\na\nb\n```\nanew\n") == [(5, "anew")]


def test_comments_docstrings_and_texts_are_read_and_names_are_not(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text('"""Told."""\ntext = f"{anew} nobody"\nanew = 1  # mend it\n')
    found = sorted((fault.line, fault.word) for fault in prose.in_code([file]))
    assert found == [(1, "Told"), (2, "nobody"), (3, "mend")]
