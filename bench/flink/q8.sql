SELECT p.id, p.name, p.window_start AS `start`
FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end
) p JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
