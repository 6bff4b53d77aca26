"""The schema of a state that goes to a plan in which its columns may be null; needs no Spark."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import pytest

from rekindle.progress.state_schema import all_nullable, is_state_schema, with_value, with_value_of

ARCHIVE = Path(__file__).parents[1] / "plain" / "checkpoints" / "spark-4.0.zip"
OF_A_JOIN = "joined-rocksdb/checkpoint/state/0/0/right-keyWithIndexToValue/_metadata/schema"


def read(name: str) -> bytes:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return archive.read(name)


def test_columns_that_could_not_be_null_may_be_and_the_rest_stays() -> None:
    """As Spark 4.0 wrote it: the filter that it had inferred for the join made a column not null."""
    before = read(OF_A_JOIN)
    assert before.count(b'"nullable":false') == 1

    after = all_nullable(before)

    assert b"false" not in after
    text = before[before.rindex(b'{"type":"struct"') :]
    assert after.endswith(text.replace(b'"nullable":false', b'"nullable":true'))
    assert len(after) == len(before) - 1
    assert all_nullable(after) == after


def test_a_column_at_the_end_of_a_chunk_may_be_null_too() -> None:
    """Java takes a long text in parts, which end anywhere between two letters."""
    columns = [{"name": f"größe{number}", "type": "long", "nullable": False, "metadata": {}} for number in range(800)]
    text = json.dumps({"type": "struct", "fields": columns}, ensure_ascii=False, separators=(",", ":"))
    for size in range(21_800, 21_900):
        parts = [text[start : start + size].encode() for start in range(0, len(text), size)]
        chunks = struct.pack(">i", len(parts)) + b"".join(struct.pack(">H", len(part)) + part for part in parts)
        file = io.BytesIO(all_nullable(b"\x00\x02v2" + chunks + chunks)[4:])
        for _ in ("key", "value"):
            read = [file.read(*struct.unpack(">H", file.read(2))) for _ in range(*struct.unpack(">i", file.read(4)))]
            assert "".join(part.decode() for part in read) == text.replace("false", "true")
        assert not file.read()


def test_the_schema_of_the_value_is_replaced_however_long_it_is() -> None:
    before = read(OF_A_JOIN)
    short = '{"type":"struct","fields":[]}'
    long = short.replace("[]", "[" + ",".join(['"x"'] * 20_000) + "]")
    for text in (short, long):
        made = with_value(before, text)
        assert made.startswith(before[: before.rindex(b'{"type":"struct"') - 6]), "the key's is as it was"
        assert with_value(made, short) == with_value(before, short)
    assert with_value(before, short).endswith(struct.pack(">iH", 1, len(short)) + short.encode())
    count = struct.unpack(">i", with_value(before, long)[before.rindex(b'{"type":"struct"') - 6 :][:4])[0]
    assert count == -(-len(long) // 20_000) > 1

    with pytest.raises(ValueError, match="version v3"):
        with_value(b"\x00\x02v3" + before[4:], short)


@pytest.mark.parametrize("version", ["4.0", "4.3"])
def test_the_schema_of_one_variable_is_replaced_among_those_of_all(version: str) -> None:
    with zipfile.ZipFile(ARCHIVE.with_name(f"spark-{version}.zip")) as archive:
        before = archive.read(next(name for name in archive.namelist() if "/_stateSchema/default/0_" in name))

    def written(text: str) -> bytes:
        return struct.pack(">iH", 1, len(text)) + text.encode()

    old = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
    other = '{"type":"struct","fields":[]}'
    made = with_value_of(before, "seen", other)
    assert before.count(written(old)) == 1 and made == before.replace(written(old), written(other))
    assert with_value_of(made, "seen", old) == before
    for wrong, name in ((before, "nothing"), (before + b"x", "seen"), (before[:-9], "seen")):
        with pytest.raises(ValueError, match="made in another way"):
            with_value_of(wrong, name, other)
    with pytest.raises(ValueError, match="version v2"):
        with_value_of(read(OF_A_JOIN), "seen", other)


def test_schemas_of_other_versions_stay_as_they_are() -> None:
    other = b"\x00\x02v3" + read(OF_A_JOIN)[4:]
    assert all_nullable(other) == other


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("state/0/0/_metadata/schema", True),
        ("state/1/12/left-keyToNumValues/_metadata/schema", True),
        ("state/0/_metadata/metadata", False),
        ("state/0/_stateSchema/default/0_7d", False),
        ("sources/0/schema", False),
    ],
)
def test_a_schema_is_known_by_its_path(path: str, is_one: bool) -> None:
    assert is_state_schema(path) is is_one
