"""What every adapter of a store over a network must do on a server that fails: it needs a `store` and a `relay`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rekindle.storage.port import Entry, Store
from tests.servers.relay import Relay

ACTS: dict[str, tuple[Callable[[Store], Any], Any]] = {
    "read": (lambda store: store.read("a"), b"one"),
    "open": (lambda store: store.open("a").read(), b"one"),
    "exists": (lambda store: store.exists("a"), True),
    "names": (lambda store: store.names(""), ["a"]),
    "walk": (lambda store: list(store.walk("")), [Entry("a", 3)]),
    "create": (lambda store: (store.create("b", b"two"), store.read("b")), (True, b"two")),
    "lose a create": (lambda store: (store.create("a", b"two"), store.read("a")), (False, b"one")),
    "replace": (lambda store: (store.replace("a", b"two"), store.read("a")), (None, b"two")),
    "copy": (lambda store: (store.copy("a", "b"), store.read("b")), (3, b"one")),
    "move": (lambda store: (store.move("a", "b"), store.read("b")), (None, b"one")),
    "delete": (lambda store: (store.delete("a"), store.names("")), (None, [])),
    "delete a tree": (lambda store: (store.delete_tree("a"), store.names("")), (None, [])),
}


class FaultyServerContract:
    @pytest.mark.parametrize("act", ACTS)
    def test_what_a_server_cannot_do_now_is_asked_for_again(self, store: Store, relay: Relay, act: str) -> None:
        store = self.anew(store)
        store.create("a", b"one")
        relay.fail(500, 503)
        does, expected = ACTS[act]
        assert does(store) == expected
        assert relay.done

    def test_an_answer_that_breaks_off_is_asked_for_again(self, store: Store, relay: Relay) -> None:
        store, data = self.anew(store), bytes(range(250)) * 800
        store.create("a", data)
        relay.cut_answers(1, of_at_least=10_000)
        assert store.read("a") == data
        assert store.open("a").read() == data
        assert relay.done

    def test_on_a_slow_server_one_of_sixteen_wins_too(self, store: Store, relay: Relay) -> None:
        store = self.anew(store)
        relay.delay_s = 0.3
        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(lambda number: store.create("a", b"%d" % number), range(16)))
        [winner] = [number for number in range(16) if won[number]]
        assert store.read("a") == b"%d" % winner

    @pytest.mark.parametrize("hours", [-30, 30])
    def test_a_server_whose_clock_is_off_does_no_harm(self, store: Store, relay: Relay, hours: int) -> None:
        store = self.anew(store)
        relay.hours_off = hours
        assert (store.create("a", b"one"), store.create("a", b"two")) == (True, False)
        store.replace("a", b"three")
        assert (store.read("a"), store.open("a").read(), store.names("")) == (b"three", b"three", ["a"])
        assert list(store.walk("")) == [Entry("a", 5)]
        store.move("a", "b")
        assert (store.names(""), store.read("b")) == (["b"], b"three")

    def anew(self, store: Store) -> Store:
        """A store whose clients know of the relay."""
        return store
