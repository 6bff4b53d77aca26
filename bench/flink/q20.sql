SELECT b.auction, b.bidder, b.price, b.ts, a.item, a.seller, a.category
FROM bids b JOIN auctions a ON b.auction = a.id
WHERE a.category = 10
