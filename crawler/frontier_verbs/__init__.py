"""The verbs of `scrapy frontier`, by what they are about. Each is arguments and a coroutine.

Not among the commands: Scrapy would take each module for one.
"""
