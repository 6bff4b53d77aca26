SELECT auction, window_start AS `start`, COUNT(*) AS bids, MIN(price) AS lowest, MAX(price) AS highest,
       AVG(CAST(price AS DOUBLE)) AS mean, SUM(price) AS paid
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY auction, window_start, window_end
