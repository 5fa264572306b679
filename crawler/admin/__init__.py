"""The admin API, its dashboard, and the query layer that `scrapy frontier` shares with it.

All state is in Redis and MongoDB, so every instance answers for the whole crawl. The API runs in
the process of a crawl (extensions/admin.py) or alone (`scrapy admin`).

    queries       questions to a crawl and orders for it, and the typed answers
    host_records  what is cached of a host, robots.txt and addresses: read or forget it
    host_report   why a host is crawled as it is
    refusals      why a URL would be left out, and by which rule
    routes        HTTP routes: they check a request, call a query, return its answer; events
    server        makes application and server from the settings; runs in the caller's event loop
    security      the checks that every request has to pass
    tokens        tokens with their roles, in a file that is read again when it changes
    sign_ins      limit of wrong tokens for each address; pure
    errors        problem JSON (RFC 9457) for every error
    static/       files of the dashboard

A new question or order is a function in `queries`, and a route here or a verb in
commands/frontier.py. The package owns no keys: it uses frontier.CrawlControl. FastAPI and uvicorn
are imported only when the API is on; `queries` does not need them. docs/admin.md describes the API.
Public: `server.create_server()`, and the API itself.
"""
