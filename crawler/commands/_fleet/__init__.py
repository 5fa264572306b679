"""Parts of `scrapy fleet`.

process     one process: its command, its log, and whether it is started again
supervisor  starts and stops the processes
snapshot    what is shown of them, while they run and at the end
"""
