"""The admin API and the dashboard: look at a crawl and control it over HTTP.

All state is in Redis and MongoDB, so any instance answers for the whole crawl. The API runs inside
a crawl's own process (extensions/admin.py) or alone (`scrapy admin`).

    server        makes the server from the settings and runs it inside a given event loop
    app           puts the application together: routes, errors, security
    security      the bearer token, and the checks that every request passes
    routes/       one module for each subject: crawl, hosts, urls, seeds, dead letters, events …
    queries       the answers: what Redis and MongoDB are asked, and the shape of what they say
    models        requests and answers as the OpenAPI document describes them
    errors        RFC 9457 problem JSON, one shape for every error
    event_stream  one stream of readings for all dashboards that listen
    static/       the dashboard's files, served by static_files

Owns no keys: it reads and changes a crawl by frontier.CrawlControl. FastAPI and uvicorn are
optional; the package is imported only when the API is switched on. docs/admin.md describes the API.
Public: `server.server()` and the API itself.
"""
