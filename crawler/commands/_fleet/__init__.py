"""Parts of `scrapy fleet`: its processes, their supervisor, and what people see of them."""
