-- The small table is an array: Flink's SQL has no broadcast join in a stream, and would keep every bid in its state.
SELECT auction, bidder, price, ts,
       ARRAY['shard 0', 'shard 1', 'shard 2', 'shard 3', 'shard 4', 'shard 5', 'shard 6', 'shard 7', 'shard 8', 'shard 9']
           [CAST(MOD(auction, 10) AS INT) + 1] AS shard
FROM bids
