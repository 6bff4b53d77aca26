"""The channels of a subtask: how far each is read, and whether it is held back or has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field

from rekindle.errors import ProtocolError
from rekindle.protocol.alignment_outcomes import Channel


@dataclass(slots=True)
class ChannelState:
    """The channels of one subtask.

    Args:
        channels: their ids; none for a root. A restored channel is brought to its place by `received`.
    """

    channels: InitVar[Iterable[Channel]]
    #: channel → number of items read of it
    _read: dict[Channel, int] = field(init=False)
    #: channels that have not ended, in order (a dict keeps the order)
    _open: dict[Channel, None] = field(init=False)
    _blocked: dict[Channel, None] = field(default_factory=dict, init=False)

    def __post_init__(self, channels: Iterable[Channel]) -> None:
        self._read = dict.fromkeys(channels, 0)
        self._open = dict.fromkeys(self._read)

    @property
    def read(self) -> Mapping[Channel, int]:
        """The number of items read of each channel; a live view."""
        return self._read

    @property
    def open(self) -> AbstractSet[Channel]:
        """The channels that have not ended, in order; a live view."""
        return self._open.keys()

    @property
    def blocked(self) -> AbstractSet[Channel]:
        """The channels that are held back, in the order of their barriers; a live view."""
        return self._blocked.keys()

    def received(self, channel: Channel, count: int = 1) -> None:
        """Note that the subtask has read `count` items from a channel.

        Raises:
            ProtocolError: ``ILLEGAL_EVENT`` if the channel is held back or has ended.
        """
        if count and (channel in self._blocked or channel not in self._open):
            state = "held back" if channel in self._blocked else "ended"
            raise illegal(f"data in channel {channel}", f"it is {state}", "data in other channels")
        self._read[channel] += count

    def block(self, channel: Channel) -> None:
        """Hold back a channel that is open."""
        if channel in self._open:
            self._blocked[channel] = None

    def unblock(self) -> None:
        """Release all channels that are held back."""
        self._blocked.clear()

    def end(self, channel: Channel) -> None:
        """Note that an open channel has ended and was read to its end."""
        del self._open[channel]
        self._blocked.pop(channel, None)


def illegal(event: str, state: str, legal: str) -> ProtocolError:
    """Return the error for an event that is not legal in this state."""
    return ProtocolError(
        "ILLEGAL_EVENT", event=event, subject="the alignment", state=f"such that {state}", legal=legal, story=""
    )
