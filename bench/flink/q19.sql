SELECT auction, bidder, price, ts
FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end, auction ORDER BY price DESC, ts DESC, bidder DESC
    ) AS place
    FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY))
)
WHERE place <= 10
