"""WARC archives: responses as they were received, for corpus builders, archives and replay.

    records  a page as WARC records, each compressed on its own
    files    files of one process: appended, synced, rotated, repaired after a crash
    index    CDXJ: one line for each capture, sorted and merged
    keys     keys of URLs in these indexes
    reader   list, verify and read archives, in a folder or an object store
    sink     the sink: SINKS="warc:archive/"
    upload   moves complete files to an object store: WARC_UPLOAD

A folder has `<crawl>-<time>-<process>-<serial>.warc.gz` with `.cdxj` beside each. While a process
writes a file, it ends in `.open`, and its index in `.cdxj.open`, in the order of writing. The
process holds a lock on the file until it ends, so any other process on the machine knows whether it
died. docs/archives.md has more.

A page is durable when its records are synced, and then the line of its index. So what follows the
last whole line is of pages that never counted as stored: a repair cuts it off. A page that was
fetched again after a crash has two captures with the same crawl, hash and visit; the merged index
has the later one only.

Needs the extra `warc`. Entry points: `sink.WarcSink`, `reader.Archive`. Public: nothing.
"""
