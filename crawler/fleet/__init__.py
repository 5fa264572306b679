"""`scrapy fleet`: several crawl processes on one machine, kept alive and shown as one."""
