from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.errors import StorageError
from rekindle.storage.open import check_kept, open_store, parent_of


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("/srv/state", "/srv/state"),
        ("/srv/100%/a b", "/srv/100%/a b"),
        ("file:///srv/a%20b/%C3%BC", "/srv/a b/ü"),
        ("file:/srv/state", "/srv/state"),
        ("file://localhost/srv/state", "/srv/state"),
        ("/a/://b", "/a/:/b"),
    ],
)
def test_plain_paths_and_file_uris_are_local(uri: str, location: str) -> None:
    assert open_store(uri).location == location


@pytest.mark.parametrize("path", ["state", "./state", "2024:state", "s3:state"])
def test_a_relative_path_is_below_the_working_directory(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(path).location == os.path.join(tmp_path, os.path.basename(path))


def test_a_uri_leads_back_to_its_store(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "a b%20 ü"))
    assert open_store(store.uri("")).location == store.location


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [
        ("wasbs://user:secret@host/x", "wasbs"),
        ("memory:///x", "memory"),
        ("file://host/x", "file"),
        ("file:state", "file"),
        ("dbfs:/mnt/state", "dbfs:/"),
        ("s3:/bucket/state", "s3:/"),
        ("hdfs:/state", "hdfs:/"),
    ],
)
def test_another_scheme_is_refused_by_name_and_shows_no_secret(uri: str, scheme: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_store(uri)
    assert caught.value.code == "STORAGE_SCHEME_UNSUPPORTED"
    assert caught.value.parameters == {"scheme": scheme}
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "above", "name"),
    [("/state/a:/b", "/state/a:", "b"), ("/state", "/", "state"), ("/", "/", ""), ("hdfs://node:8020/a/b", None, "b")],
)
def test_a_place_lies_in_another_under_its_name(place: str, above: str | None, name: str) -> None:
    store, found = parent_of(open_store(place))
    assert (store.location, found) == (above or "hdfs://node:8020/a", name)


def test_a_bucket_lies_in_no_other_place() -> None:
    bucket = open_store("s3://bucket")
    assert parent_of(bucket) == (bucket, "")


def test_opening_makes_nothing(tmp_path: Path) -> None:
    open_store(str(tmp_path / "state"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_yarn_deletes_with_the_application_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container, beside = tmp_path / "disk1/usercache/me/appcache/a/c", tmp_path / "disk1 of mine"
    container.mkdir(parents=True)
    monkeypatch.chdir(container)
    for place in (str(beside), "state"):
        check_kept(place)  # no container of YARN's
    monkeypatch.setenv("LOCAL_DIRS", f"{tmp_path / 'disk1'},{tmp_path / 'disk2'}")
    check_kept("state")
    monkeypatch.setenv("CONTAINER_ID", "container_1_0001_01_000001")
    for place in (str(beside), "s3://bucket/state", "hdfs:///state"):
        check_kept(place)
    for place in ("state", f"file://{container}/out", str(tmp_path / "disk2")):
        with pytest.raises(StorageError) as caught:
            check_kept(place)
        assert (caught.value.code, caught.value.parameters["path"]) == ("PLACE_NOT_KEPT", place)
