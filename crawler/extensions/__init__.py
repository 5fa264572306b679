"""Scrapy extensions: connections to the servers, and what the user sees of a crawl."""
