"""Scrapy commands of the project; `crawl` replaces Scrapy's own."""
