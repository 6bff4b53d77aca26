"""The lanes of a sink that this driver has opened. They stay open from commit to commit: to open one takes a while."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaException

from rekindle.sinks.kafka.consuming import Client
from rekindle.sinks.kafka.lanes import Lane, open_lanes


class OpenedLanes:
    """The lanes that are open, and not fenced as far as this driver knows."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def with_names(self, names: Collection[str], client: Client, topic: str, owner: str) -> Mapping[str, Lane]:
        """Return lanes by their names; open those that are not open."""
        self._lanes |= open_lanes(client, topic, owner, sorted(set(names) - self._lanes.keys()))
        return {name: self._lanes[name] for name in sorted(names)}

    def forget(self, name: str) -> None:
        """Close a lane, if it is open."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            with suppress(KafkaException):
                lane.close()

    def close(self) -> None:
        """Close all lanes."""
        for name in list(self._lanes):
            self.forget(name)

    @contextmanager
    def kept_if_all_is_well(self) -> Iterator[None]:
        """Close all where something fails inside: opened again, they show what they have committed."""
        try:
            yield
        except BaseException:
            self.close()
            raise
