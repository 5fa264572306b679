"""Decisions of the crawler. Pure: no Redis, no Scrapy; time is an argument."""
