-- No auction lasts longer than 30 seconds: with that bound Flink keeps a bid and an auction no longer in its state.
CREATE TEMPORARY VIEW met AS
SELECT a.id, a.seller, a.category, a.expires, b.bidder, b.price, b.ts
FROM bids b JOIN auctions a ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30' SECOND
WHERE b.ts <= a.expires;

SELECT id, bidder, price, ts
FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end, id ORDER BY price DESC, ts, bidder
    ) AS place
    FROM TABLE(TUMBLE(TABLE met, DESCRIPTOR(ts), INTERVAL '1' DAY))
)
WHERE place <= 1
