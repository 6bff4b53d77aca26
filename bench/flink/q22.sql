SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 2) AS host, SPLIT_INDEX(url, '/', 3) AS folder,
       SPLIT_INDEX(url, '/', 4) AS page
FROM bids
