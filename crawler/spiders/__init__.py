"""Scrapy spiders of the project."""
