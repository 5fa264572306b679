"""Reading in processes of their own: heavy documents, readers of users, and large pages.

    pool      worker processes of one crawl: started when needed, limited, replaced, ended when idle
    worker    what runs in such a process; `python -m crawler.reading.worker`
    messages  what the two say to each other
    own       readers of users (READERS)

The readers themselves are in parsing/: they are pure, and know nothing of processes. A file that
crashes its reader, or takes too much time or memory, costs its own record and nothing else. Owns no
keys.

Entry points: `pool.DocumentPool.of(crawler)` in a crawl, `DocumentPool.for_pages` for its large
pages, `DocumentPool.from_settings` in commands.
Public: the functions named in READERS get what `worker` says.
"""
