"""HTTP/1.1 as a crawl needs it: requests written in one piece, connections kept, responses parsed.

    request_writer   a request as bytes, and the server it goes to
    connector        connect to a host: its addresses in turn, each judged first
    connection       the exchanges over one connection, one at a time
    pool             connections kept for the next fetch of their host
    response_parser  one response from the bytes of a connection, by llhttp
    lenient_head     malformed heads as browsers read them; pure
    proxied          fetches through proxies

Entry point: download/client.py. Public: nothing.
"""
