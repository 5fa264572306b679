"""Every setting of the project: default, unit and reason. The add-on copies the same values.

Override one with `-s NAME=value`, in a project of your own, or (servers) by the environment.
"""

import os
import sys

from crawler.util import interrupts

if "scrapy.cmdline" in sys.modules:
    # A command of Scrapy's reads its settings before it loads any other module of ours.
    interrupts.watch()

# --- The project --------------------------------------------------------------------------------
BOT_NAME = "crawler"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
COMMANDS_MODULE = "crawler.commands"

# Tell sites who crawls them: a product token and an address where they find out more.
USER_AGENT = "crawler/0.1 (+https://example.org/crawler)"

# --- Servers ------------------------------------------------------------------------------------
# Unset: an embedded redis-server and mongod are started with their data in CRAWL_DIR.
REDIS_URL = os.environ.get("REDIS_URL") or None
# Without REDIS_URL, the same by the names that scrapy-redis has for them.
REDIS_HOST: str | None = None
REDIS_PORT: int | None = None
REDIS_DB: int | None = None
# More arguments for the Redis client, by the names redis-py has for them; "sentinel_kwargs" are
# those for Sentinels, as {"password": …} where they have one of their own.
REDIS_PARAMS: dict[str, object] = {}
# Seconds in which Redis must answer; then the connection is given up and the question asked again.
# A quarter of LEASE_TTL (or a second) at the most, whatever REDIS_PARAMS say: a process whose
# connection went silent has to be heard again before others take its leases.
REDIS_TIMEOUT = 7.5
# Seconds without Redis after which a process gives up and exits with 3; 0: never. A fleet starts
# it again until a server was away for so long.
REDIS_GIVE_UP = 0.0
# List, set or sorted set to which anyone may push seeds, at any time; a spider's own is its
# attribute `redis_key`.
REDIS_START_URLS_KEY = "%(name)s:start_urls"
# Refuse a Redis that would lose or evict the frontier.
REQUIRE_PERSISTENCE = True
MONGO_URI = os.environ.get("MONGO_URI") or None
MONGO_DATABASE = "crawler"
# Seconds in which MongoDB must answer; what it did not answer is asked again.
MONGO_TIMEOUT = 20.0
CRAWL_DIR = os.environ.get("CRAWL_DIR") or ".crawl"

# --- The crawl ----------------------------------------------------------------------------------
# Processes with the same name share one crawl, which has one spider. None: the spider's name.
CRAWL: str | None = None
# What to do when nothing is left: "close", or "wait" for seeds.
CRAWL_IDLE = "close"
# Seconds a process waits for a URL or host that is put off; if all wait longer, the run ends and
# keeps them for the next one.
CRAWL_MAX_WAIT = 60.0

# --- The frontier -------------------------------------------------------------------------------
# Parts of a crawl in Redis, fixed when it is created. 0: one on a server, 4 a master on a cluster.
FRONTIER_SHARDS = 0
# From which shards a process claims first: "sticky" (its own), "balanced" (the fullest), "any".
FLEET_STRATEGY = "sticky"
# Waiting URLs the crawl may have, an equal part of them in each shard; 0 for no limit. From 80% on
# (and from 80% of Redis' maxmemory) links for queues 4 and 5 wait in MongoDB instead.
FRONTIER_MAX_WAITING = 0
# How seen URLs are kept: "intset" (4.5 bytes a URL, exact to 1e-6), or "bloom" (1.8 bytes, loses
# BLOOM_ERROR of the new URLs, made for BLOOM_CAPACITY of them at a time).
URL_SEEN = "intset"
BLOOM_CAPACITY = 10_000_000
BLOOM_ERROR = 0.001
# Score from which a URL belongs to front queue 1, 2, 3, 4; the rest to 5.
FRONTIER_THRESHOLDS = [80, 60, 40, 20]
# Turns of the five queues in a hundred, and the same when more URLs of a shard wait than the
# threshold. The whole fleet follows them: a process that is given others changes them for all.
# A queue of weight 0 is served when no other has URLs.
FRONTIER_WEIGHTS = [40, 30, 20, 7, 3]
FRONTIER_LOAD_WEIGHTS = [60, 25, 10, 4, 1]
FRONTIER_LOAD_THRESHOLD = 100_000
# Seconds of silence after which a process is dead and its leases go to others.
LEASE_TTL = 30.0
# Dead letters kept; older ones are trimmed.
DEAD_MAX = 100_000
# Fingerprints a process remembers, so that most links need no look in Redis; about 60 bytes each.
KNOWN_CACHE_SIZE = 200_000

# --- URLs (the same in all processes of a crawl, from its start: they make the fingerprints) ------
# They decide which URLs are the same. Each is judged by robots.txt and fetched as it is written,
# with all of its parameters in their order; of several spellings of one URL the first one found.
# Characters a URL may have as it is written; longer ones are not followed.
URL_LENGTH_LIMIT = 2048
# Whether the order of query parameters makes no difference: ?b=2&a=1 is then known as ?a=1&b=2.
URL_SORT_QUERY = True
# Query parameters that make no difference, beside crawler/urls/dropped_parameters.txt: "name",
# "prefix*", or "name=id" for one that makes none if its value looks like a session id.
URL_DROP_PARAMETERS: list[str] = []
# What is the same URL, though it is fetched as found: any of "scheme", "www", "slash" (at the end),
# "index" (index.html and its folder), "case". With several shards "www" needs GROUP_BY = "domain".
URL_FOLD: list[str] = []

# --- Scope, traps, priority (docs/tuning.md has examples) -----------------------------------------
# Whether the sitemaps that a robots.txt names are read.
FOLLOW_SITEMAPS = True
# Endings of files that are not followed. None: the list in crawler/discovery/scope.py, less
# pictures, sound and films with FOLLOW_MEDIA. []: all files are followed.
SKIPPED_EXTENSIONS: list[str] | None = None
# Traps; 0 switches a rule off. How often a path may have the same segment, and how many segments.
TRAP_SEGMENT_REPEATS = 2
TRAP_PATH_DEPTH = 20
# Characters of a page's URL from which on its links may not be that URL and more.
TRAP_GROWTH_LENGTH = 255
# Index pages of months or days that are more years ago or ahead than this, or that another one of
# their shape leads to: so many of one shape a process.
TRAP_CALENDAR_YEARS = [10, 1]
TRAP_CALENDAR_MAX = 20
# What a process follows of one path: URLs that differ in numbers and in values of parameters only;
# sets of parameter names; URLs with four or more parameters; URLs with a session id.
TRAP_TEMPLATE_MAX = 50_000
TRAP_COMBINATIONS_MAX = 7
TRAP_FILTERS_MAX = 50
TRAP_SESSIONS_MAX = 20
# Pages that differ so, after which half of them must be no duplicates to follow more of them.
TRAP_DUPLICATES_AFTER = 10
# Points by which a URL's score differs from 100, by what is known of it; those not named keep their
# defaults, which are in crawler/discovery/priority.py with their meanings. A wrong name is an
# error.
PRIORITY_WEIGHTS: dict[str, int] = {}
# Domains whose URLs have more points: a list, or a file with one a line or as Tranco has them.
TRUSTED_DOMAINS: list[str] | str | None = None

# --- Politeness ---------------------------------------------------------------------------------
# What has one clock and one place in line: a "host", or all hosts of a registered "domain" (by the
# public suffix list: example.co.uk, alice.github.io).
GROUP_BY = "host"
# Fetches a host may have at the same time, over all processes.
HOST_PARALLELISM = 1
# Delay of a host after a fetch: DELAY_FACTOR times its usual fetch time, within these seconds.
DELAY_FACTOR = 5.0
DELAY_MIN = 1.0
DELAY_MAX = 60.0
# Seconds between the starts of two fetches at one IP address, of whichever hosts and processes, on
# average; 0: hosts alone count. Sites of a hosting company share addresses, those of a CDN too.
IP_DELAY = 0.0
# Fetches of a host that may start within a minute, over all processes; 0: no limit.
HOST_MAX_PER_MINUTE = 0.0
# Other rules for single hosts: {"host" or ".suffix": {"delay": seconds, "per_minute": fetches,
# "budget": pages, "parallelism": fetches at a time, "blocked": true}}. A delay replaces DELAY_MIN
# and DELAY_FACTOR, nothing else.
HOST_RULES: dict[str, dict[str, object]] = {}
# Delay in seconds after a 429 or 503 without Retry-After, doubled each time up to a day. It starts
# again from the first one after OVERLOAD_FORGIVEN quiet seconds.
OVERLOAD_REST = 60.0
OVERLOAD_FORGIVEN = 1800.0
# A host is left alone after so many failed connections and time-outs in a row: BREAKER_REST
# seconds, doubled each time up to a day; then one fetch is the probe. 0 failures: never.
BREAKER_FAILURES = 5
BREAKER_REST = 60.0
# Seconds of Crawl-delay that are honoured; the URLs of a host that asks for more wait until its
# rules are fetched again.
CRAWL_DELAY_MAX = 300.0
# Seconds that the rules of a robots.txt are valid (Cache-Control may shorten it, to an hour), and
# the delay after a robots.txt without an answer or with a 5xx, doubled each time up to a day.
ROBOTS_TTL = 86_400.0
ROBOTS_ERROR_TTL = 300.0
# What a robots.txt with status 401 or 403 means: "allow", as RFC 9309 has it, or "deny".
ROBOTS_FORBIDDEN_IS = "allow"
# Refuse to start without a USER_AGENT of your own that has a URL or an e-mail address.
REQUIRE_CONTACT = False
# Rules kept in memory.
ROBOTS_CACHE_SIZE = 10_000
# A failed fetch is retried so many times, 31 at most: after RETRY_BASE seconds, doubled each time
# up to RETRY_MAX.
RETRY_TIMES = 3
# Statuses that count as failures of a fetch. From 520 on they are those of proxies in front of a
# host that does not answer them.
RETRY_HTTP_CODES = [408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524]
RETRY_BASE = 30.0
RETRY_MAX = 3600.0

# --- Network ------------------------------------------------------------------------------------
# Addresses for names, as curl's --connect-to: {"host" or ".suffix": "address" or "address:port"}.
DNS_OVERRIDES: dict[str, str] = {}
# Private networks that may be connected to, e.g. ["127.0.0.0/8"]; all others are refused.
ALLOW_NETWORKS: list[str] = []
# Name servers, "address" or "address:port". Empty: those of the system.
DNS_SERVERS: list[str] = []
# Seconds in which a name must be answered; Scrapy's 60 would hold up a fetch for too long.
DNS_TIMEOUT = 6.0
# Seconds that an answer is used, whatever it says itself.
DNS_TTL_MIN = 60.0
DNS_TTL_MAX = 3600.0
# Names whose addresses are kept in memory.
DNSCACHE_SIZE = 20_000
# Seconds after which the URLs of a host are tried again when DNS gave no answer (not: no such
# name). While DNS is down they all wait this long, up to twice as long.
DNS_RETRY_WAIT = 20.0
# Connections kept open for the next fetch of a host: seconds, and hosts at a time. A polite crawl
# rarely comes back sooner, and thousands of hosts would use up the process's files.
DOWNLOAD_KEEPALIVE = 15.0
DOWNLOAD_KEEPALIVE_HOSTS = 256
# Types of pages that are downloaded, "text/*" for all of a kind; of others only the headers are
# read, and their record says so. []: every type.
ACCEPT_TYPES = [
    "text/html",
    "text/plain",
    "text/xml",
    "application/xhtml+xml",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/rdf+xml",
    "application/json",
    "application/feed+json",
]

# --- Pages --------------------------------------------------------------------------------------
# "mongo", or "none" when a feed (-O pages.jsonl) or your own pipeline takes the pages.
PAGES_STORE = "mongo"
# "zstd", "zlib" or "none".
PAGES_CODEC = "zstd"
# Lets each process of a fleet write files of its own: FEEDS with "pages-%(process)s.jsonl".
FEED_URI_PARAMS = "crawler.pipelines.feeds.with_process"
# Pages and bytes written to MongoDB in one go, at the most.
STORE_BATCH_MAX = 200
STORE_BATCH_MAX_BYTES = 16_000_000
# Seconds that a small batch waits for more pages: each batch costs as much as some pages do.
STORE_LINGER = 0.1
# When a page is durable, in MongoDB's words; what MONGO_URI says of it counts more. By default when
# the server has it in its journal; {"w": "majority", "j": true} survives failovers of a set.
STORE_WRITE_CONCERN: dict[str, object] = {"w": 1, "j": True}
# Bits in which two texts may differ and still be the same page; words a text needs to be compared.
NEAR_DISTANCE = 3
NEAR_MIN_WORDS = 50
# Pages that the index of texts is made for, fixed when a crawl is created: above 10 million it has
# more tables. Up to 16 times as many, all are found.
NEAR_PAGES = 1_000_000
# How -a recrawl= works: seconds, factors and counts that are not named keep their defaults, which
# are in crawler/scheduling/recrawl_policy.py (RecrawlTuning) with their meanings. A wrong name is
# an error.
RECRAWL: dict[str, float] = {}
# Links followed from one page.
MAX_OUTLINKS = 6000
# Whether pages and links that ask for it are not followed, and pages not kept (in meta robots tags,
# X-Robots-Tag headers and rel attributes).
OBEY_NOFOLLOW = True
OBEY_NOINDEX = True
# Whether images, sound and films are followed too.
FOLLOW_MEDIA = False
# Elements whose text is left out of a page's text, beside scripts and the like: ["nav", "footer"].
TEXT_WITHOUT: list[str] = []
# Whether each page keeps the rel and text of its links, as `anchors` in its extra fields.
KEEP_ANCHORS = False

# --- The admin API and the dashboard ------------------------------------------------------------
# Whether each crawl serves them, and where: at the first free one of ADMIN_PORTS ports from
# ADMIN_PORT on, so that every process of a machine has its own, and Prometheus knows where to look.
ADMIN_ENABLED = True
ADMIN_HOST = "127.0.0.1"
ADMIN_PORT = 8800
ADMIN_PORTS = 100
# Who knows it may do everything. Unset: made at first start, in the file admin.token of CRAWL_DIR.
# Beyond loopback one of your own is needed, of 16 characters or more.
ADMIN_TOKEN = os.environ.get("ADMIN_TOKEN") or None
# Names by which browsers reach it, besides its address, localhost and the machine's own name: a
# page of another site that points a name of its own here is refused.
ADMIN_HOSTS: list[str] = []

# --- What the user sees -------------------------------------------------------------------------
# "live": a view on the terminal; "plain": a line every PROGRESS_INTERVAL seconds; both end with a
# summary. "auto": live if standard error is a terminal, else plain. "off": none of them.
PROGRESS = "auto"
PROGRESS_INTERVAL = 5.0
# File that the summary is written to as JSON, e.g. for the program that started the crawl.
SUMMARY_FILE: str | None = None
# Command that the summary names for going on, if this run was started by another program.
RESUME_COMMAND: str | None = None

# Scrapy's stats that are exported as crawler_scrapy_stat, beside a fixed list: names.
METRICS_STATS: list[str] = []

# --- Scrapy: the engine -------------------------------------------------------------------------
SCHEDULER = "crawler.scheduler.Scheduler"
DOWNLOAD_HANDLERS = {
    "http": "crawler.download.DownloadHandler",
    "https": "crawler.download.DownloadHandler",
    # A link must never read local files or other services.
    "file": None,
    "ftp": None,
    "s3": None,
    "data": None,
}
# The frontier alone decides which host is contacted when; Scrapy's own limits must not interfere.
CONCURRENT_REQUESTS = 64
CONCURRENT_REQUESTS_PER_DOMAIN = 64
DOWNLOAD_DELAY = 0.0
AUTOTHROTTLE_ENABLED = False
# One item a page: more tasks per response only cost time (1.3 ms of 2.1).
CONCURRENT_ITEMS = 1
# Pages that wait for MongoDB, in bytes; above it fetching pauses.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 50_000_000
DOWNLOAD_TIMEOUT = 30.0
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
COOKIES_ENABLED = False
REDIRECT_MAX_TIMES = 10
# Servers that execute Python on request have no place in a crawler.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
# Every policy has one owner: Scrapy's twins of ours are off.
ROBOTSTXT_OBEY = False
DOWNLOADER_MIDDLEWARES = {
    "crawler.middlewares.retries.Retries": 10,
    "crawler.middlewares.host_rules.HostRulesMiddleware": 80,
    # Before robots.txt: where there is no such host, there are no rules to wait for.
    "crawler.middlewares.dns.Dns": 90,
    "crawler.middlewares.robots.Robots": 100,
    "crawler.middlewares.conditional.Conditional": 900,
    "crawler.middlewares.ip_delay.IpDelay": 940,
    "crawler.middlewares.politeness.PolitenessMiddleware": 950,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    # A meta refresh is a link like others.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    # Replaced by one that does not look for the Referer middleware.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "crawler.middlewares.redirects.Redirects": 600,
    # Replaced by one that does the same in half of the time.
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "crawler.fastpath.decompression.Decompression": 590,
    # Replaced by one that skips the generic spider: the links pipeline decides on its scope.
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "crawler.middlewares.scrapy_twins.Offsite": 50,
    # Replaced by one that is loaded only if HTTPAUTH_USER is set, and explains its mistakes.
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    "crawler.middlewares.scrapy_twins.HttpAuth": 300,
}
SPIDER_MIDDLEWARES = {
    "crawler.middlewares.leases.Leases": 10,
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
ITEM_PIPELINES = {
    "crawler.pipelines.duplicates.Duplicates": 100,
    "crawler.pipelines.links.Links": 200,
    "crawler.pipelines.recrawl.Recrawl": 300,
    "crawler.pipelines.store.Store": 900,
    # After all others: feeds get what they made of an item.
    "crawler.pipelines.feeds.Feeds": 10_000,
}
EXTENSIONS = {
    "crawler.extensions.components.Components": -20,
    "crawler.extensions.fastpath.FastPath": -10,
    "crawler.servers.connections.Servers": 0,
    "crawler.extensions.monitoring.Monitoring": 100,
    "crawler.extensions.progress.Progress": 500,
    "crawler.extensions.admin.Admin": 600,
    # Its line a minute is ours to write.
    "scrapy.extensions.logstats.LogStats": None,
}
# One JSON object a line instead of text for people, the summary included, and no live view; also by
# the environment: LOG_JSON=1.
LOG_JSON = os.environ.get("LOG_JSON", "").lower() in ("1", "true", "yes")
# A line a URL is for debugging.
LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []
LOG_FORMATTER = "crawler.monitoring.logs.LogFormatter"
STATS_DUMP = False
# Counts without checks for deprecated arguments, of which a page has forty.
STATS_CLASS = "crawler.fastpath.stats.Stats"
