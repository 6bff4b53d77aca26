SELECT auction, bidder, CAST(0.908 AS DOUBLE) * price AS price,
       CASE WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'dayTime'
            WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS time_of_day,
       ts, CHAR_LENGTH(url) - CHAR_LENGTH(REPLACE(url, 'c', '')) AS letters_c
FROM bids
WHERE CAST(0.908 AS DOUBLE) * price > 1000000 AND CAST(0.908 AS DOUBLE) * price < 50000000
