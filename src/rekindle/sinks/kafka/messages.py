"""The parts of a message: the columns of a row become its key, value and headers, and texts again.

All of it is SQL, so rows stay in Spark. This module must not know Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rekindle.sinks.reading import quoted

KEY, VALUE = "k", "v"
"""Columns of staged messages; their headers are ``h0``, ``h1`` and so on."""

_BODY = "rekindle_body"


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The columns that become the parts of a message."""

    #: column of the key; None: messages have none
    key: str | None
    #: column of the value; None: a JSON object of all columns but the headers
    value: str | None
    headers: tuple[str, ...]

    @classmethod
    def noted(cls, note: Mapping[str, Any]) -> MessageForm:
        """Return the form that `note` describes."""
        return cls(note["key"], note["value"], tuple(note["headers"]))

    def note(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self) | {"headers": [*self.headers]}

    def missing(self, names: Sequence[str]) -> list[str]:
        """Return the columns that it needs, and that are not there."""
        return [name for name in (self.key, self.value, *self.headers) if name is not None and name not in names]

    def published(self, names: Sequence[str]) -> list[str]:
        """Return the columns that a reader of the messages finds, of those that rows have."""
        if self.value is None:
            return [*names]
        return [name for name in names if name in (self.key, self.value, *self.headers)]

    def made(self, types: Mapping[str, str]) -> Iterator[str]:
        """Yield expressions for key, value and headers.

        Args:
            types: column → Spark's simple name of its type.
        """
        body = ", ".join(quoted(name) for name in types if name not in self.headers)
        yield f"{_binary(self.key, types) if self.key else 'CAST(NULL AS BINARY)'} AS {KEY}"
        value = _binary(self.value, types) if self.value else f"CAST(to_json(struct({body})) AS BINARY)"
        yield f"{value} AS {VALUE}"
        yield from (f"{_binary(name, types)} AS {header}" for name, header in self.header_columns())

    def opened(self) -> list[str]:
        """Return what is to be selected of messages before `text`: a body of JSON is parsed once."""
        columns = [KEY, VALUE, *(header for _, header in self.header_columns())]
        if self.value is None:
            columns.append(f"from_json(CAST({VALUE} AS STRING), 'map<string,string>') AS {_BODY}")
        return columns

    def text(self, name: str) -> str:
        """Return an expression for a published column, as text: null where the message does not have it."""
        whole = {self.key: KEY, self.value: VALUE} if self.value is not None else {}
        column = (dict(self.header_columns()) | whole).get(name)
        if column is None:
            literal = name.replace("\\", "\\\\").replace("'", "\\'")
            return f"try_element_at({_BODY}, '{literal}') AS {quoted(name)}"
        return f"CAST({column} AS STRING) AS {quoted(name)}"

    def header_columns(self) -> Iterator[tuple[str, str]]:
        """Yield each header with the column of staged messages that holds it."""
        return ((name, f"h{index}") for index, name in enumerate(self.headers))


def _binary(name: str, types: Mapping[str, str]) -> str:
    nested = types[name].partition("<")[0] in ("struct", "map", "array")
    text = f"to_json({quoted(name)})" if nested else quoted(name)
    return text if types[name] == "binary" else f"CAST(CAST({text} AS STRING) AS BINARY)"
