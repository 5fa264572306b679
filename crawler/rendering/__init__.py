"""Render pages in real browsers, for hosts whose pages are empty without JavaScript.

    needs      which pages are rendered, by what they look like and by their hosts
    hosts      what the fleet has learnt of hosts: the key rendering:<host>
    browsers   browser processes of one crawl process: started when needed, limited, replaced
    worker     what runs in such a process; `python -m crawler.rendering.worker`
    processes  processes of a browser, by /proc: their memory, and their end
    parts      scripts, style sheets and data of a page, through our own HTTP client
    messages   what a crawl and its browser processes say to each other

A browser has no network of its own. It gets the page's document as it was fetched, and asks the
crawl for every part, which obeys robots.txt, the clocks of hosts, and the limits of downloads. One
that crashes, hangs or takes too much memory costs the attempt at its page and nothing else.
trackers.txt lists domains from which no parts are fetched.

Entry points: `browsers.Browsers`, used by middlewares/rendering.py, which decides when.
docs/rendering.md explains it to users, docs/adr/0041-rendering.md has the reasons.
Public: nothing.
"""
