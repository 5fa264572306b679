"""Search: an index of the stored pages in a folder, by tantivy (the extra [search]).

    index     the index on disk: its fields, the analyzers of its languages, its one writer
    update    compares the index with the store, and indexes what differs
    query     words to search for, results with snippets

The index has only what the store has: it can be deleted and made again at any time. Folder:
SEARCH_DIR. Entry points: `update.Update`, `query.search`. Nobody writes to it but
`scrapy pages index`; `scrapy pages search` and the admin API read it.
"""
