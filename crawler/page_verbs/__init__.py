"""The verbs of `scrapy pages`. Not among the commands: Scrapy would take each for one."""
