CREATE TEMPORARY VIEW counts AS
SELECT window_start, window_end, auction, COUNT(*) AS bids
FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction;

SELECT c.window_start AS `start`, c.auction, c.bids
FROM counts c JOIN (
    SELECT window_start, window_end, MAX(bids) AS most FROM counts GROUP BY window_start, window_end
) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.bids = m.most
