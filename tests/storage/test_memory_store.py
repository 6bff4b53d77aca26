from __future__ import annotations

import pytest

from rekindle.testing.memory_store import MemoryStore
from tests.storage.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def test_uris_tell_that_spark_cannot_read_them(self, store: MemoryStore) -> None:
        assert store.uri("a/b") == "memory:///a/b"
