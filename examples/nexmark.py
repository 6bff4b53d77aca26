"""An online auction, after the Nexmark benchmark: persons, auctions and bids, 2 : 6 : 92, as Arrow tables.

Everything about event number `n` follows from `n` alone, so any range of events can be made at any time, by anybody,
and ranges put together give the same rows as one range. Ranges are half open: ``bids(0, 100)`` are the 92 bids among
events 0 to 99.

Event time advances by 1 ms an event from 2025-01-01T00:00:00Z; each event's own time lies up to 4 s before that, so
rows come out of order, but never by 4 s or more: a watermark of "4 seconds" loses none that is read in order of events.

Half of the bids go to the hot auction of their moment (one of each hundred auctions), the rest to the last hundred.

    python examples/nexmark.py history DIR --events 1000000 --files 8
    python examples/nexmark.py live DIR --first-event 1000000 --events 500000 --files 25 --every 1
"""

from __future__ import annotations

import argparse
import itertools
import time
import zlib
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Numbers: TypeAlias = npt.NDArray[np.int64]

EPOCH_US = 1_735_689_600_000_000
"""2025-01-01T00:00:00Z, the time of event 0, in microseconds since 1970."""
STEP_US = 1_000
MAX_DISORDER_US = 4_000_000
"""Every event's time lies less than this before ``EPOCH_US + n * STEP_US``."""

PERSONS, AUCTIONS, PERIOD = 1, 3, 50
"""Of each 50 events the first is a person, the next three are auctions, the other 46 are bids."""
ACTIVE_PERSONS, ACTIVE_AUCTIONS, GROUP = 1_000, 100, 100
FIRST_ID = 1_000

_TIMESTAMP = pa.timestamp("us", tz="UTC")
BIDS = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),  # cents
        ("channel", pa.string()),
        ("url", pa.string()),
        ("ts", _TIMESTAMP),
    ]
)
AUCTION_ROWS = pa.schema(
    [
        ("id", pa.int64()),
        ("item", pa.string()),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("expires", _TIMESTAMP),
        ("ts", _TIMESTAMP),
    ]
)
PERSON_ROWS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("ts", _TIMESTAMP),
    ]
)

_PRICES = np.array([round(100 * 10 ** (6 * k / 65_536)) for k in range(65_536)], dtype=np.int64)
_HOT_CHANNELS = 4
_CHANNELS = ["Google", "Facebook", "Baidu", "Apple", *(f"channel-{k}" for k in range(10_000))]
_CHANNEL_NAMES = pa.array(_CHANNELS)
_URLS = pa.array([f"https://www.nexmark.com/{name.lower()}/item.htm?query=1" for name in _CHANNELS])
_ITEMS = pa.array(
    [f"{made} {thing}" for made in ("oak", "brass", "blue", "old") for thing in ("clock", "chair", "lamp")]
)
_NAMES = pa.array([f"{a} {b}" for a in ("Ada", "Emmy", "Grace", "Kurt", "Alan") for b in ("Abel", "Gauss", "Noether")])
_CITIES = pa.array(["Phoenix", "Palo Alto", "San Francisco", "Redmond", "Portland", "Bend", "Boise", "Cheyenne"])
_STATES = pa.array(["AZ", "CA", "CA", "WA", "OR", "OR", "ID", "WY"])


def bids(first_event: int, last_event: int) -> pa.Table:
    """Make the bids among events `first_event` to `last_event` - 1, in order of events; schema `BIDS`."""
    n = _events(first_event, last_event, PERSONS + AUCTIONS, PERIOD)
    newest = (n // PERIOD) * AUCTIONS + AUCTIONS - 1
    hot = _below(n, "hot auction", 2) == 0
    auction = np.where(hot, newest // GROUP * GROUP, _recent(n, "auction", newest, ACTIVE_AUCTIONS))
    people = n // PERIOD * PERSONS
    regular = _below(n, "hot bidder", 4) == 0
    bidder = np.where(regular, _recent(n, "bidder", people, ACTIVE_PERSONS), people // GROUP * GROUP)
    known = _below(n, "hot channel", 2) == 0
    channel = np.where(
        known, _below(n, "channel", _HOT_CHANNELS), _HOT_CHANNELS + _below(n, "channel", len(_CHANNELS) - _HOT_CHANNELS)
    )
    return pa.table(
        [
            auction + FIRST_ID,
            bidder + FIRST_ID,
            _PRICES[_below(n, "price", len(_PRICES))],
            _CHANNEL_NAMES.take(channel),
            _URLS.take(channel),
            _times(n),
        ],
        schema=BIDS,
    )


def auctions(first_event: int, last_event: int) -> pa.Table:
    """Make the auctions opened among events `first_event` to `last_event` - 1; schema `AUCTION_ROWS`."""
    n = _events(first_event, last_event, PERSONS, PERSONS + AUCTIONS)
    price = _PRICES[_below(n, "initial bid", len(_PRICES))]
    times = _times(n)
    lasts_us = 1_000_000 * (10 + _below(n, "lasts", 20))
    return pa.table(
        [
            n // PERIOD * AUCTIONS + n % PERIOD - PERSONS + FIRST_ID,
            _ITEMS.take(_below(n, "item", len(_ITEMS))),
            _recent(n, "seller", n // PERIOD * PERSONS, ACTIVE_PERSONS) + FIRST_ID,
            10 + _below(n, "category", 5),
            price,
            price + _PRICES[_below(n, "reserve", len(_PRICES))],
            times + lasts_us,
            times,
        ],
        schema=AUCTION_ROWS,
    )


def persons(first_event: int, last_event: int) -> pa.Table:
    """Make the persons who joined among events `first_event` to `last_event` - 1; schema `PERSON_ROWS`."""
    n = _events(first_event, last_event, 0, PERSONS)
    city = _below(n, "city", len(_CITIES))
    ids = n // PERIOD * PERSONS + FIRST_ID
    return pa.table(
        [
            ids,
            _NAMES.take(_below(n, "name", len(_NAMES))),
            pa.array([f"person{number}@example.com" for number in ids.tolist()], pa.string()),
            _CITIES.take(city),
            _STATES.take(city),
            _times(n),
        ],
        schema=PERSON_ROWS,
    )


def write_history(directory: str | Path, events: int, files: int) -> int:
    """Write the bids among the first `events` events into `files` Parquet files; returns the number of bids."""
    return sum(_drop(Path(directory), first, last) for first, last in _shares(0, events, files))


def write_live(directory: str | Path, first_event: int, events: int, files: int, every_s: float) -> int:
    """Write the bids among `events` events from `first_event` on, a file every `every_s` seconds; returns their number.

    Each file appears at once and whole, and after the one before it, as Spark's file stream wants it.
    """
    rows = 0
    for number, (first, last) in enumerate(_shares(first_event, events, files)):
        if number:
            time.sleep(every_s)
        rows += _drop(Path(directory), first, last)
    return rows


def _shares(first_event: int, events: int, files: int) -> list[tuple[int, int]]:
    cuts = [first_event + events * k // files for k in range(files + 1)]
    return list(itertools.pairwise(cuts))


def _drop(directory: Path, first_event: int, last_event: int) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    name = f"bids-{first_event:012d}.parquet"
    table = bids(first_event, last_event)
    hidden = directory / f".{name}.tmp"
    pq.write_table(table, hidden)
    hidden.rename(directory / name)
    return int(table.num_rows)


def _events(first: int, last: int, kind_from: int, kind_to: int) -> Numbers:
    """Return the numbers in [`first`, `last`) whose place in their period is in [`kind_from`, `kind_to`)."""
    periods = np.arange(first // PERIOD, -(-last // PERIOD), dtype=np.int64)
    numbers = (periods[:, None] * PERIOD + np.arange(kind_from, kind_to, dtype=np.int64)).ravel()
    return numbers[(numbers >= first) & (numbers < last)]


def _times(n: Numbers) -> Numbers:
    return EPOCH_US + n * STEP_US - _below(n, "disorder", MAX_DISORDER_US)


def _recent(n: Numbers, what: str, newest: Numbers, active: int) -> Numbers:
    """For each event one of the `active` ids up to the newest one of its moment, or of as many as there are."""
    return newest - _below(n, what, np.minimum(newest + 1, active))


def _below(n: Numbers, what: str, limit: int | Numbers) -> Numbers:
    """For each event a number from 0 to `limit` - 1 that depends on `n` and `what` alone (SplitMix64)."""
    salt = np.uint64(zlib.crc32(what.encode()) << 32)
    z = n.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15) + salt
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    z ^= z >> np.uint64(31)
    # The upper 32 bits times the limit, shifted back: a division for each row would cost more than all the rest.
    scaled: npt.NDArray[np.uint64] = (z >> np.uint64(32)) * np.asarray(limit, dtype=np.uint64) >> np.uint64(32)
    return scaled.astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write bids of the auction as Parquet files.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("history", "live"):
        options = verbs.add_parser(verb)
        options.add_argument("directory")
        options.add_argument("--events", type=int, required=True)
        options.add_argument("--files", type=int, default=8)
        if verb == "live":
            options.add_argument("--first-event", type=int, required=True)
            options.add_argument("--every", type=float, default=1.0, metavar="SECONDS")
    given = parser.parse_args()
    if given.verb == "history":
        rows = write_history(given.directory, given.events, given.files)
    else:
        rows = write_live(given.directory, given.first_event, given.events, given.files, given.every)
    print(f"{rows:,} bids")


if __name__ == "__main__":
    main()
