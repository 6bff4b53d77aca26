SELECT b.auction, b.bidder, b.price, p.name, a.item
FROM bids b JOIN persons p ON b.bidder = p.id JOIN auctions a ON b.auction = a.id
