"""What a crawl or a fleet shows on a terminal or in a log.

    view     the figures that are shown, drawn as a live view or a plain line
    screen   standard error: shows the view again and again, prints news
    summary  what a run did, why it ended, and which commands come next

Entry points: extensions/progress.py and commands/fleet.py. Public: nothing.
"""
