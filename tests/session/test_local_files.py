"""Spark's files in a local folder are as Hadoop writes them, without a process for each (`LocalFiles`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.session import local_files
from tests.class_archive import environment_of_a_user
from tools import local_files as tool

HADOOPS, OURS = (
    {name.removeprefix("spark.hadoop."): value for name, value in settings.items()}
    for settings in (local_files.HADOOPS, local_files.SETTINGS)
)

WRITES = """
import sys
from rekindle.session.session import make_session

out, *settings = sys.argv[1:]
one = {"spark.sql.shuffle.partitions": "1"}  # each partition has files of the same kinds
spark = make_session("writes", one | dict(each.split("=") for each in settings))
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().groupBy("value").count()
query = rows.writeStream.format("noop").outputMode("update").option("checkpointLocation", f"{out}/progress")
query.trigger(once=True).start().awaitTermination()
spark.range(10).write.parquet(f"{out}/rows")
"""


def test_a_local_master_has_them_and_a_cluster_has_not() -> None:
    for master in ("local", "local[*]", "local[2]", "local[2,4]"):
        assert local_files.settings(master) == local_files.SETTINGS
    for master in ("local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"):
        assert not local_files.settings(master)


def test_a_package_without_a_jar_that_java_can_read_goes_without_them(tmp_path: Path) -> None:
    assert not local_files.settings("local[*]", tmp_path / "rekindle.zip" / "local-files.jar")


def test_the_jar_comes_after_what_the_environment_names() -> None:
    jar = str(local_files.JAR)
    assert local_files.class_path(local_files.SETTINGS, {}) == {"SPARK_DIST_CLASSPATH": jar}
    mine = {"SPARK_DIST_CLASSPATH": "/mine.jar"}
    both = f"/mine.jar{os.pathsep}{jar}"
    assert local_files.class_path(local_files.SETTINGS, mine) == {"SPARK_DIST_CLASSPATH": both}
    assert not local_files.class_path({"spark.hadoop.fs.file.impl": "my.own.Files"}, mine)


def test_the_jar_is_of_its_source() -> None:
    packed = tool.contents()
    made_by = packed.pop(tool.MANIFEST).decode().partition(f"{tool.COMPILER}: ")[2].strip()
    if tool.compiler() != made_by:
        pytest.skip(f"the jar was made by {made_by}, and here is {tool.compiler()}")
    assert packed == tool.compiled(), "python tools/local_files.py"


@pytest.fixture
def confs(spark: SparkSession) -> tuple[Any, Any]:
    """Configurations with ours, and with Hadoop's."""

    def conf(settings: Mapping[str, str]) -> Any:
        made = spark._jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
        for key, value in settings.items():
            made.set(key, value)
        return made

    return conf(OURS), conf(HADOOPS)


def found(folder: Path) -> Mapping[str, tuple[int, bytes | None]]:
    """The mode and the bytes of everything in a folder."""
    return {
        str(each.relative_to(folder)): (each.lstat().st_mode, each.read_bytes() if each.is_file() else None)
        for each in folder.rglob("*")
    }


@pytest.mark.parametrize("mode", ["640", "600", "755", "444", "1777"])
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
        files.mkdirs(hadoop.Path(f"file://{folder}/other"), allowed)
        for name in ("first", "second"):
            stream = files.create(hadoop.Path(f"file://{folder}/{name}"), allowed, True, 4096, 1, 1 << 20, None)
            stream.write(bytearray(b"rows"))
            stream.close()
        assert files.rename(hadoop.Path(f"file://{folder}/first"), hadoop.Path(f"file://{folder}/inner/third"))
        files.setPermission(hadoop.Path(f"file://{folder}/second"), allowed)
        there.append(found(folder))
        files.close()
    assert there[0] == there[1]
    assert {"second", ".second.crc", "inner/third", "inner/.third.crc", "inner/most", "other"} <= there[0].keys()


def test_bytes_that_changed_on_the_disk_are_found(spark: SparkSession, confs: tuple[Any, Any], tmp_path: Path) -> None:
    files = spark._jvm.org.apache.hadoop.fs.FileSystem.newInstance(spark._jvm.java.net.URI("file:///"), confs[0])
    path = spark._jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/file")
    stream = files.create(path, True)
    stream.write(bytearray(b"rows"))
    stream.close()
    (tmp_path / "file").write_bytes(b"rowz")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files.open(path).read()
    files.close()


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


def test_a_session_of_rekindle_starts_no_process_for_a_file(tmp_path: Path) -> None:
    def processes(*settings: str) -> set[str]:
        """The programs that Spark has started for files, of which it finds ours first."""
        folder = tmp_path / str(len(settings))
        (folder / "bin").mkdir(parents=True)
        for name in ("chmod", "readlink"):
            ours = folder / "bin" / name
            ours.write_text(
                f'#!/bin/sh\necho {name} >> {folder}/started\nexec /usr/bin/env PATH=/usr/bin:/bin {name} "$@"\n'
            )
            ours.chmod(0o755)
        environment = environment_of_a_user()
        environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
        command = [sys.executable, "-c", WRITES, str(folder), *settings]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=300)
        assert list(folder.glob("rows/*.parquet"))
        return set((folder / "started").read_text().split()) if (folder / "started").exists() else set()

    assert not processes()
    assert processes(*(f"spark.hadoop.{name}={value}" for name, value in HADOOPS.items())) == {"chmod", "readlink"}
