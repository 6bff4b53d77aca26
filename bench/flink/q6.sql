-- No auction lasts longer than 30 seconds: with that bound Flink keeps a bid and an auction no longer in its state.
CREATE TEMPORARY VIEW met AS
SELECT a.id, a.seller, a.category, a.expires, b.bidder, b.price, b.ts
FROM bids b JOIN auctions a ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30' SECOND
WHERE b.ts <= a.expires;

CREATE TEMPORARY VIEW winning AS
SELECT window_start, window_end, id, seller, category, expires, MAX(price) AS price
FROM TABLE(TUMBLE(TABLE met, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end, id, seller, category, expires;

SELECT window_start AS `start`, seller, AVG(CAST(price AS DOUBLE)) AS price
FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end, seller ORDER BY expires DESC, id DESC
    ) AS place
    FROM winning
)
WHERE place <= 10
GROUP BY window_start, window_end, seller
