"""Scrapy's way of a page at less cost: the same calls, signals and counts, fewer tasks and layers.

It stands on private parts of this version of Scrapy; the tests compare both ways. Without the
extension `Lean` Scrapy's own way is taken.
"""
