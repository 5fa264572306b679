"""What a crawl shows of itself on a terminal or in a log.

    figures  the numbers that are shown, gathered from Scrapy's stats; pure
    view     a snapshot drawn as live view or plain line
    summary  what a run did, why it ended, and which commands come next

Entry point: extensions/progress.py. Public: nothing.
"""
