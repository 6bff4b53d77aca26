"""The JVMs that tests start (`tests.quick_files`) do as others do, and have the defaults that they need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession

from tests import quick_files


@pytest.mark.skipif(not quick_files.DEFAULTS.is_file(), reason="`make` writes what is tested here")
def test_the_defaults_that_a_jvm_here_has_are_hadoops_but_for_those_left_out(spark: SparkSession) -> None:
    ours = spark.sparkContext._jsc.hadoopConfiguration()
    ours.addResource("mapred-default.xml")  # as each write does that goes through MapReduce's classes
    there = _keys(ours)
    for name, beginnings in quick_files.PRUNED.items():
        left_out = {key for key in _named(quick_files.defaults(name)) if key.startswith(beginnings)}
        kept = _named(quick_files.without(beginnings, quick_files.defaults(name)))
        assert kept == {key: text for key, text in _named(quick_files.defaults(name)).items() if key not in left_out}
        assert len(left_out) > 100
        assert kept.keys() <= there
        assert there.isdisjoint(left_out)


@pytest.mark.since("4.3")
def test_a_folder_is_deleted_with_all_that_is_in_it_and_not_what_links_in_it_point_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    java_utils = spark._jvm.org.apache.spark.network.util.JavaUtils
    field = spark._jvm.java.lang.Class.forName(java_utils._fqn).getField("isUnix")
    assert field.getBoolean(None) is False, "no process is started for it"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(b"rows")
    folder = tmp_path / "folder"
    (folder / "inner" / "most").mkdir(parents=True)
    (folder / "inner" / "file").write_bytes(b"rows")
    os.symlink(kept, folder / "inner" / "link")
    os.symlink(tmp_path / "nothing", folder / "to-nothing")

    java_utils.deleteRecursively(spark._jvm.java.io.File(str(folder)))

    assert not folder.exists()
    assert (kept / "file").read_bytes() == b"rows"


def _named(document: bytes) -> dict[str, tuple[str, ...]]:
    """Each setting with all that is said of it but what it is for."""
    given = (each for each in ET.fromstring(document).findall("property") if each.findtext("value"))
    return {
        each.findtext("name", "").strip(): tuple(
            f"{part.tag}: {part.text}" for part in each if part.tag != "description"
        )
        for each in given
    }


def _keys(conf: Any) -> set[str]:
    found = conf.iterator()
    keys = set[str]()
    while found.hasNext():
        keys.add(found.next().getKey())
    return keys
