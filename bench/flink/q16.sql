SELECT channel, window_start AS `day`, MAX(DATE_FORMAT(ts, 'HH:mm')) AS `minute`,
       COUNT(*) AS bids,
       COUNT(*) FILTER (WHERE price < 10000) AS cheap_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS fair_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS dear_bids,
       COUNT(DISTINCT bidder) AS bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS cheap_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS fair_bidders,
       COUNT(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS dear_bidders,
       COUNT(DISTINCT auction) AS auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS cheap_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS fair_auctions,
       COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS dear_auctions
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY channel, window_start, window_end
