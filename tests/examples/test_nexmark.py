"""The generator of the demo and the benchmark: what the comparisons rest on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nexmark

KINDS = [nexmark.persons, nexmark.auctions, nexmark.bids]
EVENT = st.integers(0, 5_000)


@given(st.tuples(EVENT, EVENT, EVENT).map(sorted), st.sampled_from(KINDS))
def test_ranges_put_together_are_the_whole_range(cuts, make):
    first, middle, last = cuts
    assert pa.concat_tables([make(first, middle), make(middle, last)]).equals(make(first, last))


def test_bids_are_the_same_on_every_machine():
    made = pa.concat_tables([nexmark.bids(0, 7), nexmark.bids(1_000_000, 1_000_005)])
    assert made["auction"].to_pylist() == [1_001, 1_000, 1_000, 61_000]
    assert made["bidder"].to_pylist() == [1_000, 1_000, 1_000, 20_026]
    assert made["price"].to_pylist() == [6_200, 557, 40_013_208, 4_568]
    assert made["channel"].to_pylist()[3] == "channel-5057"
    assert made["ts"].cast(pa.int64()).to_pylist() == [
        1_735_689_597_518_449,
        1_735_689_599_143_972,
        1_735_689_598_117_233,
        1_735_690_596_899_731,
    ]


def test_of_each_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids():
    assert [make(0, 10_000).num_rows for make in KINDS] == [200, 600, 9_200]
    assert [make(50, 54).num_rows for make in KINDS] == [1, 3, 0]


def test_event_time_advances_and_stays_within_its_bound():
    n = np.array([k for k in range(20_000) if k % 50 >= 4])
    late_us = nexmark.EPOCH_US + n * nexmark.STEP_US - nexmark.bids(0, 20_000)["ts"].cast(pa.int64()).to_numpy()
    assert late_us.min() >= 0
    assert late_us.max() < nexmark.MAX_DISORDER_US
    assert late_us.max() > 0.99 * nexmark.MAX_DISORDER_US


def test_a_watermark_of_the_bound_drops_no_bid_read_in_order():
    times = nexmark.bids(0, 20_000)["ts"].cast(pa.int64()).to_numpy()
    assert (np.maximum.accumulate(times) - times).max() < nexmark.MAX_DISORDER_US
    assert (np.diff(times) < 0).any()


def test_bids_name_persons_and_auctions_that_exist_by_then():
    for last in (60, 5_000, 100_000):
        made = nexmark.bids(0, last)
        auctions, people = nexmark.auctions(0, last), nexmark.persons(0, last)
        assert set(made["auction"].to_pylist()) <= set(auctions["id"].to_pylist())
        assert set(made["bidder"].to_pylist()) <= set(people["id"].to_pylist())
        assert set(auctions["seller"].to_pylist()) <= set(people["id"].to_pylist())


def test_half_of_the_bids_go_to_hot_auctions():
    auction = nexmark.bids(0, 200_000)["auction"].to_numpy()
    share = ((auction - nexmark.FIRST_ID) % nexmark.GROUP == 0).mean()
    assert 0.49 < share < 0.52


@pytest.mark.parametrize("make", KINDS)
def test_an_empty_range_has_the_columns_and_no_rows(make):
    assert make(7, 7).num_rows == 0
    assert make(7, 7).schema == make(0, 500).schema


def test_history_and_live_files_hold_the_bids_of_their_events_and_nothing_else_lies_there(tmp_path):
    rows = nexmark.write_history(tmp_path / "history", 10_000, 3)
    rows += nexmark.write_live(tmp_path / "live", 10_000, 5_000, 4, every_s=0)
    read = [pq.read_table(path) for name in ("history", "live") for path in sorted((tmp_path / name).iterdir())]
    assert len(read) == 7
    assert pa.concat_tables(read).equals(nexmark.bids(0, 15_000))
    assert rows == 13_800
