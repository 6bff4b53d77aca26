CREATE TEMPORARY VIEW windowed AS
SELECT auction, bidder, price, window_start, window_end
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND));

SELECT b.window_start AS `start`, b.auction, b.bidder, b.price
FROM windowed b JOIN (
    SELECT window_start, window_end, MAX(price) AS highest FROM windowed GROUP BY window_start, window_end
) m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.highest
