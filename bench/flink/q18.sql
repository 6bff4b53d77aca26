SELECT bidder, auction, price, ts
FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end, bidder, auction ORDER BY ts DESC, price DESC
    ) AS place
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY))
)
WHERE place <= 1
