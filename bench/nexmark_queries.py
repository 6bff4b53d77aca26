"""The queries of Nexmark as tasks, each with the SQL of an engine that has nothing to do with Spark.

They are what people ask of an auction's streams: filters, joins, windows, sessions, tops, statistics, each a function
from DataFrames to a DataFrame that a job, a plain streaming query and a batch query run alike. The SQL is DuckDB's, and
gives the rows that each of them has to have.

Where Nexmark asks for a table that changes for ever (q4, q6, q9, q15 to q19), these ask by day, so that rows are final
and can be appended. q12 goes by the time of day at which a row is processed, so that no two runs agree: it is left out.

Persons, auctions and bids are those of ``examples/nexmark.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

Task: TypeAlias = Callable[..., DataFrame]

SCHEMAS = {
    "bids": "auction long, bidder long, price long, channel string, url string, ts timestamp",
    "auctions": "id long, item string, seller long, category long, initial_bid long, reserve long, expires timestamp,"
    " ts timestamp",
    "persons": "id long, name string, email string, city string, state string, ts timestamp",
}
"""Stream → its columns, as Spark writes them."""

DELAY = "4 seconds"
"""No row of a stream is later than that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One of Nexmark's questions."""

    name: str
    #: the question, in words
    asks: str
    #: the streams that it reads, in the order of the task's parameters
    reads: tuple[str, ...]
    task: Task
    #: the same for DuckDB, over tables of these names
    sql: str


QUERIES: dict[str, Query] = {}
"""Name → query, in Nexmark's order."""


def query(*reads: str, asks: str, sql: str) -> Callable[[Task], Task]:
    """Make a function one of the queries."""

    def add(task: Task) -> Task:
        QUERIES[task.__name__] = Query(name=task.__name__, asks=asks, reads=reads, task=task, sql=sql)
        return task

    return add


def _start(column: str = "window") -> Column:
    return F.col(f"{column}.start").alias("start")


def _distinct(column: str, where: Column | None = None) -> Column:
    """Count a column's different values among the rows where a condition holds; exact, unlike Spark's own."""
    return F.size(F.collect_set(F.col(column) if where is None else F.when(where, F.col(column))))


# -- one row at a time ------------------------------------------------------------------------------------------------


@query("bids", asks="every bid", sql="SELECT * FROM bids")
def q0(bids: DataFrame) -> DataFrame:
    return bids


@query(
    "bids",
    asks="every bid, in euros",
    sql="SELECT auction, bidder, 0.908::DOUBLE * price AS price, ts FROM bids",
)
def q1(bids: DataFrame) -> DataFrame:
    return bids.select("auction", "bidder", (0.908 * F.col("price")).alias("price"), "ts")


@query("bids", asks="bids on some auctions", sql="SELECT auction, price FROM bids WHERE auction % 123 = 0")
def q2(bids: DataFrame) -> DataFrame:
    return bids.where("auction % 123 = 0").select("auction", "price")


@query(
    "bids",
    asks="bids by minute, as they are archived",
    sql="SELECT auction, bidder, price, ts, strftime(ts, '%Y-%m-%d') AS day, strftime(ts, '%H:%M') AS minute FROM bids",
)
def q10(bids: DataFrame) -> DataFrame:
    return bids.select(
        "auction",
        "bidder",
        "price",
        "ts",
        F.date_format("ts", "yyyy-MM-dd").alias("day"),
        F.date_format("ts", "HH:mm").alias("minute"),
    )


@query(
    "bids",
    asks="bids with the name of their auction's shard, from a small table",
    sql="SELECT auction, bidder, price, ts, 'shard ' || auction % 10 AS shard FROM bids",
)
def q13(bids: DataFrame) -> DataFrame:
    shards = bids.sparkSession.range(10).select(
        F.col("id").alias("number"), F.concat(F.lit("shard "), F.col("id")).alias("shard")
    )
    numbered = bids.withColumn("number", F.col("auction") % 10)
    return numbered.join(F.broadcast(shards), "number").select("auction", "bidder", "price", "ts", "shard")


@query(
    "bids",
    asks="dear bids, by the time of day, with the letters c of their address",
    sql="""
        SELECT auction, bidder, 0.908::DOUBLE * price AS price,
               CASE WHEN hour(ts) >= 8 AND hour(ts) <= 18 THEN 'dayTime'
                    WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS time_of_day,
               ts, length(url) - length(replace(url, 'c', '')) AS letters_c
        FROM bids WHERE 0.908::DOUBLE * price > 1000000 AND 0.908::DOUBLE * price < 50000000
    """,
)
def q14(bids: DataFrame) -> DataFrame:
    hour = F.hour("ts")
    time_of_day = (
        F.when((hour >= 8) & (hour <= 18), "dayTime")
        .when((hour <= 6) | (hour >= 20), "nightTime")
        .otherwise("otherTime")
    )
    letters_c = F.length("url") - F.length(F.replace("url", F.lit("c"), F.lit("")))
    return (
        bids.withColumn("price", 0.908 * F.col("price"))
        .where("price > 1000000 AND price < 50000000")
        .select("auction", "bidder", "price", time_of_day.alias("time_of_day"), "ts", letters_c.alias("letters_c"))
    )


@query(
    "bids",
    asks="bids with the number of their channel",
    sql="""
        SELECT auction, bidder, price, channel,
               CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3' ELSE regexp_extract(url, 'channel-(\\d+)/', 1) END AS channel_id
        FROM bids
    """,
)
def q21(bids: DataFrame) -> DataFrame:
    channel = F.lower("channel")
    number = F.regexp_extract("url", r"channel-(\d+)/", 1)
    for name, known in {"baidu": "3", "facebook": "2", "google": "1", "apple": "0"}.items():
        number = F.when(channel == name, known).otherwise(number)
    return bids.select("auction", "bidder", "price", "channel", number.alias("channel_id"))


@query(
    "bids",
    asks="bids with the folders of their address",
    sql="""
        SELECT auction, bidder, price, channel, split_part(url, '/', 3) AS host, split_part(url, '/', 4) AS folder,
               split_part(url, '/', 5) AS page
        FROM bids
    """,
)
def q22(bids: DataFrame) -> DataFrame:
    parts = F.split("url", "/")
    folders = [parts[number].alias(name) for number, name in ((2, "host"), (3, "folder"), (4, "page"))]
    return bids.select("auction", "bidder", "price", "channel", *folders)


# -- joins ------------------------------------------------------------------------------------------------------------


@query(
    "auctions",
    "persons",
    asks="who sells in one category in three states",
    sql="""
        SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
)
def q3(auctions: DataFrame, persons: DataFrame) -> DataFrame:
    sold = auctions.where("category = 10").select(F.col("id").alias("auction"), "seller")
    people = persons.where("state IN ('OR', 'ID', 'CA')").select(F.col("id").alias("seller"), "name", "city", "state")
    return sold.join(people, "seller").select("name", "city", "state", F.col("auction").alias("id"))


@query(
    "persons",
    "auctions",
    asks="who opened an auction in the ten seconds in which they joined",
    sql="""
        SELECT p.id, p.name, p.start
        FROM (SELECT DISTINCT id, name, time_bucket(INTERVAL '10 seconds', ts) AS start FROM persons) p
        JOIN (SELECT DISTINCT seller, time_bucket(INTERVAL '10 seconds', ts) AS start FROM auctions) a
        ON p.id = a.seller AND p.start = a.start
    """,
)
def q8(persons: DataFrame, auctions: DataFrame) -> DataFrame:
    joined = persons.groupBy(F.window("ts", "10 seconds"), "id", "name").count().drop("count")
    opened = auctions.groupBy(F.window("ts", "10 seconds"), F.col("seller").alias("id")).count().drop("count")
    return joined.join(opened, ["window", "id"]).select("id", "name", _start())


@query(
    "bids",
    "auctions",
    asks="bids with their auction, in one category",
    sql="""
        SELECT b.auction, b.bidder, b.price, b.ts, a.item, a.seller, a.category
        FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10
    """,
)
def q20(bids: DataFrame, auctions: DataFrame) -> DataFrame:
    wanted = auctions.where("category = 10").select(F.col("id").alias("auction"), "item", "seller", "category")
    return bids.join(wanted, "auction").select("auction", "bidder", "price", "ts", "item", "seller", "category")


@query(
    "bids",
    "persons",
    "auctions",
    asks="bids with the bidder's name and the seller's auction",
    sql="""
        SELECT b.auction, b.bidder, b.price, p.name, a.item
        FROM bids b JOIN persons p ON b.bidder = p.id JOIN auctions a ON b.auction = a.id
    """,
)
def q23(bids: DataFrame, persons: DataFrame, auctions: DataFrame) -> DataFrame:
    people = persons.select(F.col("id").alias("bidder"), "name")
    items = auctions.select(F.col("id").alias("auction"), "item")
    return bids.join(people, "bidder").join(items, "auction").select("auction", "bidder", "price", "name", "item")


_WINNING = """
    SELECT date_trunc('day', b.ts) AS start, a.id, a.seller, a.category, a.expires, max(b.price) AS price
    FROM auctions a JOIN bids b ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires GROUP BY ALL
"""


_IN_TIME = "auction = id AND ts >= opened AND ts <= expires AND ts <= opened + INTERVAL 30 SECONDS"
"""No auction lasts longer than 30 seconds: with that bound Spark keeps a bid and an auction no longer in its state."""


def _winning(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    """Compute the highest price that each auction had while it was open, by the day of its bids."""
    opened = auctions.select("id", "seller", "category", F.col("ts").alias("opened"), "expires")
    met = bids.select("auction", "price", "ts").join(opened, F.expr(_IN_TIME))
    return met.groupBy(F.window("ts", "1 day"), "id", "seller", "category", "expires").agg(
        F.max("price").alias("price")
    )


@query(
    "auctions",
    "bids",
    asks="what auctions of each category end at on average, by day",
    sql=f"SELECT start, category, avg(price) AS price FROM ({_WINNING}) GROUP BY ALL",
)
def q4(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    by_category = _winning(auctions, bids).groupBy(F.window("window", "1 day"), "category")
    return by_category.agg(F.avg("price").alias("price")).select(_start(), "category", "price")


@query(
    "auctions",
    "bids",
    asks="what the last ten auctions of each seller ended at on average, by day",
    sql=f"""
        SELECT start, seller, avg(price) AS price FROM (
            FROM ({_WINNING})
            QUALIFY row_number() OVER (PARTITION BY start, seller ORDER BY expires DESC, id DESC) <= 10
        ) GROUP BY ALL
    """,
)
def q6(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    newest_first = F.sort_array(F.collect_list(F.struct("expires", "id", "price")), asc=False)
    by_seller = _winning(auctions, bids).groupBy(F.window("window", "1 day"), "seller")
    last = by_seller.agg(F.slice(newest_first, 1, 10)["price"].alias("prices"))
    mean = F.aggregate("prices", F.lit(0.0), lambda sum_, one: sum_ + one, lambda sum_: sum_ / F.size("prices"))
    return last.select(_start(), "seller", mean.alias("price"))


@query(
    "auctions",
    "bids",
    asks="the bid that won each auction, by day",
    sql="""
        SELECT a.id, b.bidder, b.price, b.ts
        FROM auctions a JOIN bids b ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
        QUALIFY row_number()
            OVER (PARTITION BY date_trunc('day', b.ts), a.id ORDER BY b.price DESC, b.ts, b.bidder) = 1
    """,
)
def q9(auctions: DataFrame, bids: DataFrame) -> DataFrame:
    opened = auctions.select("id", F.col("ts").alias("opened"), "expires")
    met = bids.join(opened, F.expr(_IN_TIME))
    first = F.min(F.struct((-F.col("price")).alias("less"), "ts", "bidder")).alias("best")
    won = met.groupBy(F.window("ts", "1 day"), "id").agg(first)
    return won.select("id", "best.bidder", (-F.col("best.less")).alias("price"), "best.ts")


# -- windows ----------------------------------------------------------------------------------------------------------


@query(
    "bids",
    asks="the auctions with the most bids of ten seconds, each two seconds",
    sql="""
        WITH starts AS (
            SELECT auction, time_bucket(INTERVAL '2 seconds', ts) - INTERVAL 2 SECONDS * before.number AS start
            FROM bids, (SELECT unnest(range(5)) AS number) before
        ), counts AS (SELECT start, auction, count(*) AS bids FROM starts GROUP BY ALL)
        SELECT start, auction, bids FROM counts QUALIFY bids = max(bids) OVER (PARTITION BY start)
    """,
)
def q5(bids: DataFrame) -> DataFrame:
    counts = bids.groupBy(F.window("ts", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("bids"))
    # Two auctions may have as many: they stay together.
    equals = counts.groupBy("window", "bids").agg(F.collect_list("auction").alias("auctions"))
    most = equals.groupBy("window").agg(F.max(F.struct("bids", "auctions")).alias("most"))
    return most.select(_start(), F.explode("most.auctions").alias("auction"), F.col("most.bids").alias("bids"))


@query(
    "bids",
    asks="the highest bids of each ten seconds",
    sql="""
        SELECT time_bucket(INTERVAL '10 seconds', ts) AS start, auction, bidder, price FROM bids
        QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL '10 seconds', ts))
    """,
)
def q7(bids: DataFrame) -> DataFrame:
    equals = bids.groupBy(F.window("ts", "10 seconds"), "price").agg(
        F.collect_list(F.struct("auction", "bidder")).alias("bids")
    )
    highest = equals.groupBy("window").agg(F.max_by(F.struct("price", "bids"), "price").alias("highest"))
    each = highest.select("window", "highest.price", F.explode("highest.bids").alias("bid"))
    return each.select(_start(), "bid.auction", "bid.bidder", "price")


@query(
    "bids",
    asks="how many bids each bidder makes before a pause of ten seconds",
    sql="""
        WITH marked AS (
            SELECT bidder, ts, coalesce(ts - lag(ts) OVER of_bidder > INTERVAL '10 seconds', true) AS is_first
            FROM bids WINDOW of_bidder AS (PARTITION BY bidder ORDER BY ts)
        ), numbered AS (
            SELECT bidder, ts, sum(is_first::INT) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM marked
        )
        SELECT bidder, count(*) AS bids, min(ts) AS start, max(ts) + INTERVAL '10 seconds' AS until
        FROM numbered GROUP BY bidder, session
    """,
)
def q11(bids: DataFrame) -> DataFrame:
    sessions = bids.groupBy(F.session_window("ts", "10 seconds"), "bidder").agg(F.count("*").alias("bids"))
    return sessions.select("bidder", "bids", _start("session_window"), F.col("session_window.end").alias("until"))


# -- statistics by day ------------------------------------------------------------------------------------------------

_CHEAP, _FAIR, _DEAR = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def _ranks(of: Callable[[str], Column], name: str) -> list[Column]:
    return [of(where).alias(f"{rank}_{name}") for rank, where in (("cheap", _CHEAP), ("fair", _FAIR), ("dear", _DEAR))]


def _statistics() -> list[Column]:
    return [
        F.count("*").alias("bids"),
        *_ranks(lambda where: F.count_if(F.expr(where)), "bids"),
        _distinct("bidder").alias("bidders"),
        *_ranks(lambda where: _distinct("bidder", F.expr(where)), "bidders"),
        _distinct("auction").alias("auctions"),
        *_ranks(lambda where: _distinct("auction", F.expr(where)), "auctions"),
    ]


def _statistics_sql(keys: str) -> str:
    parts = []
    for what, name in (("*", "bids"), ("DISTINCT bidder", "bidders"), ("DISTINCT auction", "auctions")):
        parts.append(f"count({what}) AS {name}")
        for rank, where in (("cheap", _CHEAP), ("fair", _FAIR), ("dear", _DEAR)):
            parts.append(f"count({what}) FILTER ({where}) AS {rank}_{name}")
    return f"SELECT {keys}, {', '.join(parts)} FROM bids GROUP BY ALL"


@query("bids", asks="how many bid, on what, and how dear, by day", sql=_statistics_sql("date_trunc('day', ts) AS day"))
def q15(bids: DataFrame) -> DataFrame:
    by_day = bids.groupBy(F.window("ts", "1 day")).agg(*_statistics())
    return by_day.withColumn("window", F.col("window.start")).withColumnRenamed("window", "day")


@query(
    "bids",
    asks="the same by channel",
    sql=_statistics_sql("channel, date_trunc('day', ts) AS day, max(strftime(ts, '%H:%M')) AS minute"),
)
def q16(bids: DataFrame) -> DataFrame:
    minute = F.max(F.date_format("ts", "HH:mm")).alias("minute")
    by_channel = bids.groupBy("channel", F.window("ts", "1 day")).agg(minute, *_statistics())
    return by_channel.withColumn("window", F.col("window.start")).withColumnRenamed("window", "day")


@query(
    "bids",
    asks="how the bids on each auction were spread, by day",
    sql="""
        SELECT auction, date_trunc('day', ts) AS start, count(*) AS bids, min(price) AS lowest, max(price) AS highest,
               avg(price) AS mean, sum(price) AS paid
        FROM bids GROUP BY ALL
    """,
)
def q17(bids: DataFrame) -> DataFrame:
    price = F.col("price")
    by_day = bids.groupBy(F.window("ts", "1 day"), "auction").agg(
        F.count("*").alias("bids"),
        F.min(price).alias("lowest"),
        F.max(price).alias("highest"),
        F.avg(price).alias("mean"),
        F.sum(price).alias("paid"),
    )
    return by_day.select("auction", _start(), "bids", "lowest", "highest", "mean", "paid")


@query(
    "bids",
    asks="the last bid of each bidder on each auction, by day",
    sql="""
        SELECT bidder, auction, price, ts FROM bids
        QUALIFY row_number()
            OVER (PARTITION BY date_trunc('day', ts), bidder, auction ORDER BY ts DESC, price DESC) = 1
    """,
)
def q18(bids: DataFrame) -> DataFrame:
    by_day = bids.groupBy(F.window("ts", "1 day"), "bidder", "auction")
    return by_day.agg(F.max(F.struct("ts", "price")).alias("last")).select("bidder", "auction", "last.price", "last.ts")


@query(
    "bids",
    asks="the ten highest bids on each auction, by day",
    sql="""
        SELECT auction, bidder, price, ts FROM bids
        QUALIFY row_number()
            OVER (PARTITION BY date_trunc('day', ts), auction ORDER BY price DESC, ts DESC, bidder DESC) <= 10
    """,
)
def q19(bids: DataFrame) -> DataFrame:
    highest_first = F.sort_array(F.collect_list(F.struct("price", "ts", "bidder")), asc=False)
    by_day = bids.groupBy(F.window("ts", "1 day"), "auction").agg(F.slice(highest_first, 1, 10).alias("highest"))
    each = by_day.select("auction", F.explode("highest").alias("bid"))
    return each.select("auction", "bid.bidder", "bid.price", "bid.ts")
