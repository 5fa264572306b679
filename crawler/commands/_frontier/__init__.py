"""The verbs of `scrapy frontier`, by subject. Each is its arguments and a coroutine."""
