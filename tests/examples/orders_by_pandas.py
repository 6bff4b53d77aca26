"""What pandas computes of the orders of `examples/orders.py`."""

from __future__ import annotations

import pandas as pd

import orders


def expected(count: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Revenue, sessions and archive of the first `count` orders."""
    frame = orders.orders(0, count).to_pandas()
    table = pd.DataFrame(orders.products(), columns=["product", "category", "cents"])
    frame = frame.merge(table, on="product")
    frame["revenue"] = frame["pieces"] * frame["cents"]
    archive = frame[["order", "user", "category", "revenue", "ts"]]
    hourly = frame.assign(hour=frame["ts"].dt.floor("h")).groupby(["hour", "category"], as_index=False)
    revenue = hourly.agg(orders=("order", "size"), revenue=("revenue", "sum"))
    by_user = frame.sort_values(["user", "ts"])
    apart = by_user.groupby("user")["ts"].diff() > pd.Timedelta(milliseconds=orders.SESSION_GAP_MS)
    number = apart.groupby(by_user["user"]).cumsum().rename("number")
    grouped = by_user.groupby([by_user["user"], number])
    sessions = grouped.agg(
        begin=("ts", "min"), end=("ts", "max"), orders=("order", "size"), revenue=("revenue", "sum")
    ).reset_index()
    return revenue, sessions.drop(columns="number"), archive


def same(found: pd.DataFrame, wanted: pd.DataFrame, keys: list[str]) -> None:
    """Raise AssertionError unless both have the same rows."""

    def tidy(frame: pd.DataFrame) -> pd.DataFrame:
        times = frame.select_dtypes(["datetime", "datetimetz"]).columns
        plain = {name: frame[name].to_numpy("datetime64[us]") for name in times}
        return frame.assign(**plain)[wanted.columns].sort_values(keys, ignore_index=True)

    pd.testing.assert_frame_equal(tidy(found), tidy(wanted), check_dtype=False)
