"""Files that are added to an Iceberg table at once, each under the partition spec that it was written for.

Others may partition the table otherwise while rows wait for their commit. Iceberg takes files of older specs, but
pyiceberg adds files under the table's default spec alone. So the metadata in memory gets another default spec for as
long as files are added under it. The catalog receives what is added, and keeps its own default.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rekindle.sinks.iceberg_files import data_file, data_folder
from rekindle.sinks.iceberg_rewind import try_once
from rekindle.sinks.staging import Attempts
from rekindle.sinks.two_phase import Committable
from rekindle.sinks.writing import for_each
from rekindle.storage.port import Entry

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


def described(
    table: Table, attempts: Attempts, committables: Sequence[Committable]
) -> Mapping[int, Sequence[DataFile]]:
    """Return spec id → the entries of a manifest for the files of committables that are added under this spec.

    A committable has its id in ``spec``. The default spec is taken for one that has none, since an older version wrote
    it, or one that the table does not have any more: the partition is read off the file in any case.

    Raises:
        SinkError: ``SINK_STAGING_LOST``.
        ValueError: the table has changed, and a file does not fit it any more (`data_file`).
    """
    default, known, folder = table.metadata.default_spec_id, table.specs(), data_folder(table)
    specs = (spec if (spec := one.get("spec")) in known else default for one in committables)
    found = [(spec, file) for spec, one in zip(specs, committables, strict=True) for file in attempts.files([one])]

    def describe(one: tuple[int, Entry]) -> DataFile:
        spec, file = one
        footer = attempts.footer(file)
        return data_file(footer, f"{folder}/{file.path}", file.size_bytes, _with_default(table.metadata, spec))

    by_spec: dict[int, list[DataFile]] = defaultdict(list)
    for (spec, _), entry in zip(found, for_each(attempts.store, describe, found), strict=True):
        by_spec[spec].append(entry)
    return by_spec


def add(
    table: Table, files: Mapping[int, Sequence[DataFile]], tells: Mapping[str, str], properties: Mapping[str, str]
) -> None:
    """Add files to a table that no one has changed since it was loaded, and set properties of it.

    A reader sees all of them or none. There is a snapshot for each spec.

    Args:
        files: see `described`.
        tells: what the summary of the snapshot says.

    Raises:
        CommitFailedException: the table has changed.
    """
    try_once(table)
    loaded = table.metadata
    with table.transaction() as transaction:
        if loaded.name_mapping() is None:  # Spark's files do not know the numbers of the table's columns
            mapping = loaded.schema().name_mapping.model_dump_json()
            transaction.set_properties({"schema.name-mapping.default": mapping})
        merges = table.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
        for spec, some in files.items():
            table.metadata = _with_default(loaded, spec)
            snapshot = transaction.update_snapshot(snapshot_properties=dict(tells))
            with snapshot.merge_append() if merges else snapshot.fast_append() as append:
                for file in some:
                    append.append_data_file(file)
        transaction.set_properties(dict(properties))


def _with_default(metadata: TableMetadata, spec: int) -> TableMetadata:
    return metadata.model_copy(update={"default_spec_id": spec})
