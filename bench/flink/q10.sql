SELECT auction, bidder, price, ts, DATE_FORMAT(ts, 'yyyy-MM-dd') AS `day`, DATE_FORMAT(ts, 'HH:mm') AS `minute` FROM bids
