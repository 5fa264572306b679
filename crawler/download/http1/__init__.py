"""HTTP/1.1 as a crawl needs it, directly or through a proxy.

    request_writer   a request as bytes, its server and its proxy
    connector        the addresses of a host in turn, each checked first; tunnels of proxies
    connection       the exchanges over one connection, one at a time
    pool             idle connections, kept by route (server, proxy, local address)
    response_parser  one response from the bytes of a connection; llhttp reads its head
    lenient_head     malformed heads as browsers read them; pure

Entry point: download/client.py. Public: nothing.
"""
