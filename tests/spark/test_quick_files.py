"""The local files of the JVMs that tests start (`tests.quick_files`) are as Hadoop writes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests import quick_files

HADOOPS = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}

pytestmark = pytest.mark.skipif(not quick_files.settings(), reason="`make` compiles what is tested here")


@pytest.fixture
def confs(spark: SparkSession) -> tuple[Any, Any]:
    """Configurations with ours, and with Hadoop's."""
    ours = spark.sparkContext._jsc.hadoopConfiguration()
    hadoops = spark._jvm.org.apache.hadoop.conf.Configuration(ours)
    for key, value in HADOOPS.items():
        assert ours.get(key, "").startswith(quick_files.CLASS)
        hadoops.set(key, value)
    return ours, hadoops


def found(folder: Path) -> Mapping[str, tuple[int, bytes | None]]:
    """The mode and the bytes of everything in a folder."""
    return {
        str(each.relative_to(folder)): (each.lstat().st_mode, each.read_bytes() if each.is_file() else None)
        for each in folder.rglob("*")
    }


@pytest.mark.parametrize("mode", ["640", "600", "755", "444"])
def test_what_is_written_has_the_same_names_bytes_and_permissions(
    spark: SparkSession, confs: tuple[Any, Any], tmp_path: Path, mode: str
) -> None:
    hadoop = spark._jvm.org.apache.hadoop.fs
    there = []
    for number, conf in enumerate(confs):
        folder = tmp_path / str(number)
        files = hadoop.FileSystem.newInstance(spark._jvm.java.net.URI("file:///"), conf)
        allowed = hadoop.permission.FsPermission(mode)
        files.mkdirs(hadoop.Path(f"file://{folder}/inner/most"), hadoop.permission.FsPermission("750"))
        for name in ("first", "second"):
            stream = files.create(hadoop.Path(f"file://{folder}/{name}"), allowed, True, 4096, 1, 1 << 20, None)
            stream.write(bytearray(b"rows"))
            stream.close()
        assert files.rename(hadoop.Path(f"file://{folder}/first"), hadoop.Path(f"file://{folder}/inner/third"))
        there.append(found(folder))
        files.close()
    assert there[0] == there[1]
    assert {"second", ".second.crc", "inner/third", "inner/.third.crc", "inner/most"} <= there[0].keys()


def test_a_file_a_folder_a_link_and_a_missing_path_are_distinguished(
    spark: SparkSession, confs: tuple[Any, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"rows")
    (tmp_path / "folder").mkdir()
    for target in ("file", "folder", "nothing"):
        os.symlink(tmp_path / target, tmp_path / f"to-{target}")
    hadoop = spark._jvm.org.apache.hadoop.fs

    def seen(conf: Any, name: str) -> str:
        context = hadoop.FileContext.getFileContext(spark._jvm.java.net.URI("file:///"), conf)
        try:
            return context.getFileLinkStatus(hadoop.Path(f"file://{tmp_path}/{name}")).toString()
        except Py4JJavaError as error:
            return error.java_exception.getClass().getName()

    for name in ("file", "folder", "to-file", "to-folder", "to-nothing", "nothing"):
        ours, hadoops = (seen(conf, name) for conf in confs)
        assert ours == hadoops
    assert seen(confs[0], "nothing") == "java.io.FileNotFoundException"


def test_the_defaults_that_a_jvm_here_has_are_hadoops_but_for_those_left_out(confs: tuple[Any, Any]) -> None:
    ours = confs[0]
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
