"""Write sample bids, one every 10 seconds: python make_bids.py FOLDER FIRST_HOUR HOURS."""

import datetime as dt
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def make(folder, first_hour, hours):
    """Write the bids of `hours` hours of 1 January 2025 as one Parquet file."""
    start = dt.datetime(2025, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(hours=first_hour)
    seconds = range(0, hours * 3600, 10)
    bids = {"ts": [start + dt.timedelta(seconds=s) for s in seconds], "auction": [s // 10 % 7 for s in seconds]}
    os.makedirs(folder, exist_ok=True)
    hidden, visible = (f"{folder}/{dot}{first_hour:03}.parquet" for dot in (".", ""))
    pq.write_table(pa.table(bids), hidden)
    os.rename(hidden, visible)  # a stream never sees half a file


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
