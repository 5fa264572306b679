"""`scrapy doctor`: is everything that a crawl needs in order, and if not, what to change."""
