-- The streams, as Spark reads them: a time is a number of microseconds in their files, since Flink's Parquet reader knows
-- no other times than INT96. A time attribute of Flink has milliseconds, as the times of the streams have.
CREATE TEMPORARY TABLE bid_files (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts BIGINT,
    event_time AS TO_TIMESTAMP_LTZ(ts / 1000, 3),
    WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
) WITH ($bids);

CREATE TEMPORARY TABLE auction_files (
    id BIGINT, item STRING, seller BIGINT, category BIGINT, initial_bid BIGINT, reserve BIGINT, expires BIGINT, ts BIGINT,
    event_time AS TO_TIMESTAMP_LTZ(ts / 1000, 3),
    WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
) WITH ($auctions);

CREATE TEMPORARY TABLE person_files (
    id BIGINT, name STRING, email STRING, city STRING, state STRING, ts BIGINT,
    event_time AS TO_TIMESTAMP_LTZ(ts / 1000, 3),
    WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
) WITH ($persons);

CREATE TEMPORARY VIEW bids AS SELECT auction, bidder, price, channel, url, event_time AS ts FROM bid_files;

CREATE TEMPORARY VIEW auctions AS
SELECT id, item, seller, category, initial_bid, reserve, TO_TIMESTAMP_LTZ(expires / 1000, 3) AS expires, event_time AS ts
FROM auction_files;

CREATE TEMPORARY VIEW persons AS SELECT id, name, email, city, state, event_time AS ts FROM person_files
