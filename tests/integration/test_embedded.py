from pathlib import Path

import redis

from crawler.embedded import EmbeddedServers


def test_redis_data_survives_a_restart(tmp_path: Path) -> None:
    servers = EmbeddedServers(tmp_path)
    with redis.Redis.from_url(servers.redis_url()) as client:
        client.set("key", "kept")
    servers.release()
    with redis.Redis.from_url(servers.redis_url(), decode_responses=True) as client:
        assert client.get("key") == "kept"
    servers.release()
