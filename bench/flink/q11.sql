SELECT bidder, COUNT(*) AS bids, window_start AS `start`, window_end AS `until`
FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
