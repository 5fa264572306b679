"""Parts that several tests share: real servers, proxies, browsers, and ways to wait for them.

`servers`, `cluster` and `browser` are pytest plug-ins (see tests/conftest.py) with the fixtures
`redis_url`, `redis_client`, `mongo_uri`, `mongo_db_name`, `browser` and so on. Everything else is
imported where it is needed. What only one folder of tests uses stays in that folder.
"""
