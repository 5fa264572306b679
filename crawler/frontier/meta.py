"""Create a crawl, and check at each start that this program may work on it.

Fixed at creation are the data model, shards, form of URL-seen, suffixes and the spider.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from crawler.errors import ConfigurationError, NotFound, ServerAway
from crawler.frontier import keys
from crawler.frontier.tuning import UrlSeen, intset
from crawler.servers.redis.connection import Client

DATA_MODEL = 8
# With visits of hosts, for pages that are rendered: programs that do not know them would leave the
# slots of a process that died taken for ever. Other crawls stay at DATA_MODEL.
VISITS_MODEL = 9
# Data models that this program can work on. Older ones become DATA_MODEL, so that older programs
# refuse the crawl: its entries, or the gaps between them, would look damaged to them, and parked
# hosts would never be active.
READABLE = frozenset({"4", "5", "6", "7", str(DATA_MODEL), str(VISITS_MODEL)})
# Field of what a process reports about itself: the newest data model that it knows. Earlier
# versions have none, and raise the crawl's to theirs when they start.
KNOWN_MODEL = "model"
# A process without a beat for so long counts as dead.
_SILENCE_MS = 30_000
# The version is written last: if it is there, the others are too.
_FIELDS = ("shards", "seen", "seen_argument", "version")
# Crawls without this field know only ICANN's suffixes, and must keep them: another group of a host
# would have a second clock, and another shard.
_ALL_SUFFIXES = "all"
# Keys that one call of SCAN reads.
_SCANNED = 10_000
_COMPACT_SETS = (512, 256, 128, 64)


@dataclass(frozen=True, slots=True)
class Meta:
    """Layout of a crawl in Redis."""

    shards: int
    url_seen: UrlSeen
    # Whether private suffixes (github.io) count as suffixes.
    private_suffixes: bool
    # Spider of the crawl: callbacks in entries are its methods. Empty until one has started.
    spider: str = ""
    # Tells it from another crawl of its name: begins with its first start, in unix ms.
    id: str = ""

    def check_spider(self, crawl: str, spider: str) -> None:
        """Raise ConfigurationError if the crawl is another spider's."""
        if self.spider not in ("", spider):
            raise ConfigurationError(
                f"The crawl {crawl!r} is of the spider {self.spider!r}, and this one is "
                f"{spider!r}: its URLs would meet callbacks that are not theirs. Give each spider "
                "a crawl of its own (-s CRAWL=NAME, or no CRAWL in the settings), or delete that "
                f"one: scrapy frontier delete --crawl {crawl}."
            )


def new_id(now_s: float) -> str:
    """Return an id for a crawl that begins at this time, see Meta."""
    return f"{round(now_s * 1000)}-{uuid.uuid4().hex[:8]}"


def begun_ms(crawl_id: str) -> int:
    """Return when the crawl with an id began; 0 without one."""
    return int(crawl_id.partition("-")[0] or 0)


async def create_or_check(
    redis: Client,
    crawl: str,
    tags: Sequence[str],
    url_seen: UrlSeen,
    spider: str = "",
    *,
    crawl_id: str = "",
) -> Meta:
    """Create the crawl, or check that this program and its spider may work on it.

    `tags` are the hash tags of its shards; `crawl_id` is its id if it has none.
    """
    key = keys.crawl_meta(crawl)
    if None in await redis.hmget(key, _FIELDS):
        if url_seen.name == intset().name:
            url_seen = intset(await _compact_set_size(redis, tags[0]))
        # Each field only if it is missing: another process may create the crawl at the same time.
        await redis.hsetnx(key, "suffixes", _ALL_SUFFIXES)
        if crawl_id:
            await redis.hsetnx(key, "id", crawl_id)
        values = (len(tags), url_seen.name, url_seen.argument, DATA_MODEL)
        for name, value in zip(_FIELDS, values, strict=True):
            await redis.hsetnx(key, name, value)
    meta = await read(redis, crawl)
    for setting, wanted, found in (
        ("FRONTIER_SHARDS", str(len(tags)), str(meta.shards)),
        ("URL_SEEN", url_seen.name, meta.url_seen.name),
    ):
        if wanted != found:
            raise ConfigurationError(
                f"{setting} is {wanted}; the crawl {crawl!r} was created with {found}, which "
                "cannot change. Set it to that, or choose another name with CRAWL."
            )
    if spider and not meta.spider:
        await redis.hsetnx(key, "spider", spider)
        meta = await read(redis, crawl)
    if spider:
        meta.check_spider(crawl, spider)
    if crawl_id and not meta.id:
        # Also of a crawl that an earlier version began.
        await redis.hsetnx(key, "id", crawl_id)
        meta = await read(redis, crawl)
    await keep_older_programs_out(redis, crawl, tags[0])
    return meta


async def keep_older_programs_out(
    redis: Client, crawl: str, tag: str, model: int = DATA_MODEL
) -> None:
    """Raise the data model of a crawl, before something is written that older programs misread.

    `tag` is the hash tag of its first shard. Raises ServerAway while such programs work on it.
    """
    key = keys.crawl_meta(crawl)
    known = int(await redis.hget(key, "version") or 0)
    if known >= model:
        return
    if older := await _older_processes(redis, tag, known, model):
        names = ", ".join(older[:5]) + (" …" if len(older) > 5 else "")
        what = "renders pages" if model == VISITS_MODEL else "writes a newer one"
        raise ServerAway(
            f"The crawl {crawl!r} has data model {known}, and this program {what} (data model "
            f"{model}), while {len(older)} processes of an earlier version work on it ({names}): "
            "stop them first, and start all processes with this version. One that was killed "
            f"counts for {_SILENCE_MS // 1000} s."
        )
    await redis.hset(key, "version", model)


async def _older_processes(redis: Client, tag: str, known: int, model: int) -> list[str]:
    """Return where the live processes of a crawl are that know its data model, and not this one."""
    seconds, micros = await redis.time()
    skew_ms = int(await redis.hget(keys.stats(tag), "skew_ms") or 0)
    since = int(seconds) * 1000 + int(micros) // 1000 + skew_ms - _SILENCE_MS
    live = set(await redis.zrangebyscore(keys.owners(tag), since, "+inf"))
    found = []
    for name, data in (await redis.hgetall(keys.instances(tag))).items():
        about = json.loads(data)
        if name in live and int(about.get(KNOWN_MODEL, known)) < model:
            found.append(f"{about.get('machine', '?')} pid {about.get('pid', '?')}")
    return found


async def stored_shards(redis: Client, crawl: str) -> int:
    """Return the number of shards of a crawl; 0 if it does not exist yet."""
    return int(await redis.hget(keys.crawl_meta(crawl), "shards") or 0)


async def crawls(redis: Client) -> dict[str, str]:
    """Return the crawls in this Redis, by name, with the versions of their data models. O(keys)."""
    found = {}
    async for key in redis.scan_iter(match=keys.crawl_metas(), count=_SCANNED, _type="hash"):
        version = await redis.hget(key, "version")
        if version is not None:
            found[keys.crawl_named(key.decode())] = version.decode()
    return dict(sorted(found.items()))


async def read(redis: Client, crawl: str) -> Meta:
    """Read the layout of a crawl; raise an error if there is none, or it is too new or too old."""
    found = await redis.hgetall(keys.crawl_meta(crawl))
    values = {name.decode(): value.decode() for name, value in found.items()}
    if "version" not in values:
        raise NotFound(f"There is no crawl {crawl!r} in this Redis.")
    if values["version"] not in READABLE:
        raise ConfigurationError(
            f"The crawl {crawl!r} in Redis has data model {values['version']}, and this program "
            f"knows {min(map(int, READABLE))} to {VISITS_MODEL}. Finish it with the version that "
            "began it, or a later one; or choose another name with CRAWL."
        )
    return Meta(
        shards=int(values["shards"]),
        url_seen=UrlSeen(values["seen"], values["seen_argument"]),
        private_suffixes=values.get("suffixes") == _ALL_SUFFIXES,
        spider=values.get("spider", ""),
        id=values.get("id", ""),
    )


async def _compact_set_size(redis: Client, tag: str) -> int:
    """Return how many integers this server keeps as a compact set (set-max-intset-entries)."""
    # A key of this process alone: a whole fleet may start at the same time.
    key = f"{keys.probe(tag)}:{uuid.uuid4().hex}"
    try:
        for size in _COMPACT_SETS:
            await redis.sadd(key, *range(size))
            if await redis.object("ENCODING", key) == b"intset":
                return size
            await redis.delete(key)
    finally:
        await redis.delete(key)
    raise ConfigurationError(
        "This Redis keeps no compact sets of 64 integers; set set-max-intset-entries to 512, or "
        "use URL_SEEN=bloom."
    )
