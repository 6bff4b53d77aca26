SELECT auction, bidder, price, channel, url, ts FROM bids
