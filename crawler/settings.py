"""Every setting of the project, with its default, unit and reason.

Override one on the command line (`-s NAME=value`), in the settings of your own project, or, for
servers, in the environment. The add-on (crawler/addon.py) applies the same defaults. The rules for
values are in crawler/config/values.py.

docs/reference/settings.md is made of this file (`make reference`): a comment is the meaning of the
settings below it, or of a section if a blank line follows it; a trailing comment is the unit of a
number, and "; since 0.2" after it the version since which there is the setting (if not 0.1).
"""

import os
import sys

from crawler.util import interrupts

if "scrapy.cmdline" in sys.modules:
    # A command of Scrapy's reads its settings before it loads any other module of ours.
    interrupts.watch()

# --- The project --------------------------------------------------------------------------------
# Where Scrapy finds this project's spiders and commands.
BOT_NAME = "crawler"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
COMMANDS_MODULE = "crawler.commands"

# How the crawler identifies itself to sites: a product token, and a URL or e-mail address.
USER_AGENT = "crawler/0.1 (+https://example.org/crawler)"

# --- Servers ------------------------------------------------------------------------------------
# If a server is not set, an embedded redis-server or mongod is started, with its data in CRAWL_DIR.

# Redis, Valkey, Sentinels or a cluster, as in docs/operations.md.
REDIS_URL = os.environ.get("REDIS_URL") or None
# Used without REDIS_URL; the names are those of scrapy-redis.
REDIS_HOST: str | None = None
REDIS_PORT: int | None = None
REDIS_DB: int | None = None
# More arguments for the Redis client of redis-py. "sentinel_kwargs" is for the connections to
# Sentinels, for example {"password": …} if they have their own.
REDIS_PARAMS: dict[str, object] = {}
# Seconds to wait for an answer of Redis; then the command is sent again on a new connection. At
# most a quarter of LEASE_TTL (a second is always allowed), whatever REDIS_PARAMS say: a process
# whose connection went silent must reconnect before others take its leases.
REDIS_TIMEOUT = 7.5  # s
# Seconds without Redis after which a process exits with status 3; 0: never. A fleet restarts its
# processes until the server has been away for this long.
REDIS_GIVE_UP = 0.0  # s
# Key of the list, set or sorted set to which seeds can be pushed at any time. A spider overrides it
# with its attribute `redis_key`.
REDIS_START_URLS_KEY = "%(name)s:start_urls"
# Topics of Kafka from which seeds are read all the time: "kafka://host:9092/topic", or several
# topics with commas (docs/streams.md). The generic spider takes it as -a seeds=kafka://… too.
KAFKA_SEEDS: str | None = None
# Consumer group in which the processes of a crawl share these topics. None: crawler- and the name
# of the crawl. A new group reads all messages that the topics have.
KAFKA_GROUP: str | None = None
# Refuse to start on a Redis that may evict keys or does not persist them.
REQUIRE_PERSISTENCE = True
# MongoDB for SINKS = "mongo" and for runs, and the name of the database in it.
MONGO_URI = os.environ.get("MONGO_URI") or None
MONGO_DATABASE = "crawler"
# Seconds to wait for an answer of MongoDB; then the operation is repeated.
MONGO_TIMEOUT = 20.0  # s
# Seconds in which PostgreSQL must take a batch of pages; then it is written again.
POSTGRES_TIMEOUT = 20.0  # s
# Folder for what a crawl keeps on this machine: data of embedded servers, logs, the admin token.
CRAWL_DIR = os.environ.get("CRAWL_DIR") or ".crawl"

# --- The crawl ----------------------------------------------------------------------------------
# Name of the crawl. Processes with the same name share it, and must run the same spider. None: the
# spider's name.
CRAWL: str | None = None
# What a process does when no URL is left: "close", or "wait" for new seeds.
CRAWL_IDLE = "close"
# URLs that a process begins to fetch in a minute at the most, evenly spaced; 0: no limit. For the
# whole crawl it is an argument: -a max_pages_per_minute=600.
MAX_PAGES_PER_MINUTE = 0.0  # URLs
# Seconds that a process waits for delayed URLs and hosts. If all of them need longer, the run ends;
# the URLs stay in the frontier for the next run.
CRAWL_MAX_WAIT = 60.0  # s

# --- The frontier -------------------------------------------------------------------------------
# Number of shards, fixed when the crawl is created. 0: 4 for each server that has a part of it.
FRONTIER_SHARDS = 0  # shards
# Shards that a process claims from first: "sticky" (always the same ones), "hash" (an equal number
# for each process, moved when one comes or goes), "balanced" (the fullest) or "round_robin".
FLEET_STRATEGY = "sticky"
# Number of waiting URLs that limits links of low priority; on a cluster it is divided equally among
# the shards. 0: no limit. From 80% of it, or of Redis' maxmemory, links for queues 4 to 7 (pages of
# low priority, documents, media) are kept in MongoDB instead, or without it in a folder of
# CRAWL_DIR, up to SPILL_MAX_BYTES.
FRONTIER_MAX_WAITING = 0  # URLs
SPILL_MAX_BYTES = 10_000_000_000  # bytes
# How seen URLs are stored: "intset" (4.5 bytes a URL, one error in 1,000,000), or "bloom" (1.8
# bytes a URL; loses a share of BLOOM_ERROR of the new URLs; filters of BLOOM_CAPACITY URLs each).
URL_SEEN = "intset"
BLOOM_CAPACITY = 10_000_000  # URLs
BLOOM_ERROR = 0.001  # share
# Minimum scores of front queues 1, 2, 3 and 4; URLs with a lower score go to queue 5. So high that
# most URLs wait in the last queues: nearly a third of the turns goes to queues 3 to 5.
FRONTIER_THRESHOLDS = [100, 80, 60, 40]
# Weights of the five queues, and their weights while more URLs than the threshold wait in a shard.
# They apply to the whole fleet: a process started with other values changes them for all processes.
# A queue with weight 0 is served only when the others are empty.
FRONTIER_WEIGHTS = [40, 30, 20, 7, 3]
FRONTIER_LOAD_WEIGHTS = [60, 25, 10, 4, 1]
FRONTIER_LOAD_THRESHOLD = 100_000  # URLs
# Documents and media (with all other files) wait in queues of their own. Their shares of the turns
# while pages wait too, and the most URLs of a type that are taken of each host and in all (0: no
# limit). They apply to the whole fleet; values that are not given stay as they are here.
TYPE_BUDGETS: dict[str, dict[str, float]] = {
    "document": {"share": 0.2, "max_per_host": 10_000, "max": 0},
    "medium": {"share": 0.1, "max_per_host": 10_000, "max": 0},
}
# Seconds without a heartbeat after which a process is considered dead and its leases are reclaimed.
LEASE_TTL = 30.0  # s
# Maximum number of dead letters; the oldest are trimmed.
DEAD_MAX = 100_000  # dead letters
# Fingerprints of seen URLs that a process caches, 8 bytes each. Most links then need no lookup in
# Redis.
KNOWN_CACHE_SIZE = 500_000  # URLs

# --- URLs -----------------------------------------------------------------------------------------
# These settings decide which URLs are the same, so they must be equal in all processes of a crawl
# and never change. A URL is fetched, and checked against robots.txt, as it is written in the link
# that was found first, with all parameters in their order.

# Maximum length of a URL in characters; longer ones are not followed.
URL_LENGTH_LIMIT = 2048  # characters
# Whether to ignore the order of query parameters: ?b=2&a=1 is then the same as ?a=1&b=2.
URL_SORT_QUERY = True
# Query parameters to ignore, in addition to crawler/urls/dropped_parameters.txt: "name", "prefix*",
# or "name=id" to ignore it only if its value looks like a session id.
URL_DROP_PARAMETERS: list[str] = []
# Further differences to ignore: any of "scheme", "www", "slash" (at the end), "index" (index.html
# and its folder), "case". With several shards "www" needs GROUP_BY = "domain".
URL_FOLD: list[str] = []

# --- Scope, traps, priority (docs/tuning.md) -----------------------------------------------------
# Whether to read the sitemaps named in robots.txt files.
FOLLOW_SITEMAPS = True
# Whether to follow documents (PDF, Office, books; docs/documents.md), and whether to follow images,
# audio and video too. Documents are then downloaded and read, whatever ACCEPT_TYPES has.
FOLLOW_DOCUMENTS = True
FOLLOW_MEDIA = False
# File extensions that are not followed. None: the list in crawler/discovery/scope.py, without those
# of documents and media that are followed. []: follow all files.
SKIPPED_EXTENSIONS: list[str] | None = None
# Crawler traps; 0 switches a rule off. How often a path may repeat a segment, and its maximum
# number of segments.
TRAP_SEGMENT_REPEATS = 2  # times
TRAP_PATH_DEPTH = 20  # segments
# Length of a page's URL, in characters, above which links that extend this URL are refused.
TRAP_GROWTH_LENGTH = 255  # characters
# Calendars: index pages of months or days that are more than this many years back or ahead, or that
# are linked from another page of the same calendar. Each process follows at most the second number.
TRAP_CALENDAR_YEARS = [10, 1]
TRAP_CALENDAR_MAX = 20  # URLs
# Limits of a process for one path: URLs that differ only in numbers and parameter values, different
# sets of parameter names, URLs with four or more parameters, URLs with a session id.
TRAP_TEMPLATE_MAX = 50_000  # URLs
TRAP_COMBINATIONS_MAX = 7  # sets
TRAP_FILTERS_MAX = 50  # URLs
TRAP_SESSIONS_MAX = 20  # URLs
# After this many pages of one such pattern, more are followed only if at least half of them were no
# duplicates.
TRAP_DUPLICATES_AFTER = 10  # pages
# Points that properties of a URL add to its score of 100. The names, their meanings and the
# defaults of those not given are in crawler/discovery/priority.py. An unknown name is an error.
PRIORITY_WEIGHTS: dict[str, int] = {}
# Memory in Redis, in bytes, for how many other domains link to each URL, which counts for its
# priority; 0: not counted. 8 bytes a URL: with more URLs, counts are forgotten after a while.
INBOUND_SKETCH_BYTES = 32_000_000  # bytes
# Domains whose URLs get more points: a list, or a file with one domain a line. Of a file with ranks
# (the Tranco format) the better a domain's rank, the more points. "well-known" is a list of
# institutions that comes with the crawler (crawler/discovery/trusted_domains.txt).
TRUSTED_DOMAINS: list[str] | str | None = None
# File with the ranks of pages, made by `scrapy pages rank -o FILE` from the links of a crawl. URLs
# get more or fewer points by their rank, new ones and those that are visited again.
PAGE_RANKS: str | None = None

# --- Politeness ---------------------------------------------------------------------------------
# What a delay applies to: each "host", or all hosts of a registered "domain" together (by the
# public suffix list: example.co.uk, alice.github.io).
GROUP_BY = "host"
# Maximum number of concurrent fetches of a host, over all processes.
HOST_PARALLELISM = 1  # fetches
# Delay of a host after a fetch: DELAY_FACTOR times its usual fetch time, within these seconds.
DELAY_FACTOR = 5.0  # factor
DELAY_MIN = 1.0  # s
DELAY_MAX = 60.0  # s
# Average seconds between the starts of two fetches from one IP address, over all hosts and
# processes; 0: no such delay. Many sites of a hosting company or a CDN share one address.
IP_DELAY = 0.0  # s
# Maximum number of fetches of a host that start within a minute, over all processes; 0: no limit.
HOST_MAX_PER_MINUTE = 0.0  # fetches a minute
# Rules for single hosts: {"host" or ".suffix": {"delay": seconds, "per_minute": fetches, "budget":
# pages, "parallelism": concurrent fetches, "blocked": true}}. A delay replaces only DELAY_MIN and
# DELAY_FACTOR.
HOST_RULES: dict[str, dict[str, object]] = {}
# Delay in seconds after a 429 or 503 without Retry-After, doubled each time up to a day. It starts
# again from the first one after OVERLOAD_FORGIVEN quiet seconds.
OVERLOAD_REST = 60.0  # s
OVERLOAD_FORGIVEN = 1800.0  # s
# A host is left alone after so many failed connections and time-outs in a row: BREAKER_REST
# seconds, doubled each time up to a day; then one fetch is the probe. 0 failures: never.
BREAKER_FAILURES = 5  # failures
BREAKER_REST = 60.0  # s
# Maximum Crawl-delay in seconds that is honoured. The URLs of a host that asks for more wait until
# its robots.txt is fetched again.
CRAWL_DELAY_MAX = 300.0  # s
# Seconds that the rules of a robots.txt are valid (Cache-Control may shorten it, to an hour), and
# the delay after a robots.txt without an answer or with a 5xx, doubled each time up to a day.
ROBOTS_TTL = 86_400.0  # s
ROBOTS_ERROR_TTL = 300.0  # s
# What a robots.txt with status 401 or 403 means: "allow" (as in RFC 9309) or "deny".
ROBOTS_FORBIDDEN_IS = "allow"
# Refuse to start unless USER_AGENT is your own and has a URL or an e-mail address.
REQUIRE_CONTACT = False
# Number of robots.txt files whose rules a process caches.
ROBOTS_CACHE_SIZE = 10_000  # files
# A failed fetch is retried so many times, 31 at most: after RETRY_BASE seconds, doubled each time
# up to RETRY_MAX.
RETRY_TIMES = 3  # times
# Statuses that count as failed fetches. Those from 520 on come from proxies whose host does not
# answer.
RETRY_HTTP_CODES = [408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524]
RETRY_BASE = 30.0  # s
RETRY_MAX = 3600.0  # s

# --- Network ------------------------------------------------------------------------------------
# Addresses for host names, like curl's --connect-to: {"host" or ".suffix": "address" or
# "address:port"}.
DNS_OVERRIDES: dict[str, str] = {}
# Private networks that may be connected to, such as ["127.0.0.0/8"]; all others are refused.
ALLOW_NETWORKS: list[str] = []
# Name servers, as "address" or "address:port". Empty: those of the system.
DNS_SERVERS: list[str] = []
# Seconds for a DNS lookup. Scrapy's default of 60 would delay fetches for too long.
DNS_TIMEOUT = 6.0  # s
# Bounds, in seconds, for how long DNS answers are cached, whatever their TTL is.
DNS_TTL_MIN = 60.0  # s
DNS_TTL_MAX = 3600.0  # s
# Number of host names whose addresses a process caches.
DNSCACHE_SIZE = 20_000  # names
# Seconds after which the URLs of a host are tried again if its DNS lookup failed (but not if the
# name does not exist). While DNS is down, all URLs wait for this long, up to twice as long.
DNS_RETRY_WAIT = 20.0  # s
# Seconds for which a connection is kept open for the next fetch of its host, and the maximum number
# of such connections: as many as there are active hosts. Each takes a file descriptor, and 64 KB of
# memory with TLS, 3 KB without. A new one takes a millisecond of CPU time with TLS.
DOWNLOAD_KEEPALIVE = 15.0  # s
DOWNLOAD_KEEPALIVE_HOSTS = 2000  # connections
# Content types that are downloaded, beside those of FOLLOW_DOCUMENTS and READERS; "text/*" is
# allowed. For other types only the headers are read, and the page's record says so. []: download
# every type.
ACCEPT_TYPES = [
    "text/html",
    "text/plain",
    "text/markdown",
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
# Where pages are stored, separated by blanks: "mongo", "warc:FOLDER" or "s3://BUCKET/PREFIX"
# (docs/archives.md), or the path of a class of your own, with its argument after a colon
# ("myproject.sinks.Files:pages/", see docs/sinks.md). A page is done when all of them have it.
# "none" if a feed (-o pages.jsonl) or your own pipeline takes the pages.
SINKS: str | list[str] = "mongo"
# Folder in which pages are kept while a sink is away, and the maximum bytes of it. None: fetching
# pauses instead. Losing this disk loses the pages in it.
SPOOL_DIR: str | None = None
SPOOL_MAX_BYTES = 10_000_000_000  # bytes
# WARC files: their compression, "gzip", "zstd" or "none", and its level (gzip 1 to 9, of which 1 to
# 3 take a third of the time; zstd 1 to 19).
WARC_CODEC = "gzip"
WARC_LEVEL = 2  # level
# Bytes and seconds after which a WARC file is complete, and the next one is begun.
WARC_MAX_BYTES = 1_000_000_000  # bytes
WARC_MAX_AGE = 21_600.0  # s
# Whether a record with the outlinks, depth and fetch time of each page is written too.
WARC_METADATA = False
# Name and address of whoever runs the crawl, for the first record of each file.
WARC_OPERATOR = ""
# Where complete WARC files and their indexes are uploaded, after which they are deleted here:
# "s3://bucket/prefix", "gs://…", "az://…" or "file:///…". None: they stay.
WARC_UPLOAD: str | None = None
# API key of Elasticsearch or OpenSearch, in its encoded form, for sinks whose URL has no user.
ELASTICSEARCH_API_KEY = os.environ.get("ELASTICSEARCH_API_KEY") or None
# Kafka (docs/streams.md). What the names of topics begin with, and the names that follow.
KAFKA_TOPIC_PREFIX = ""
KAFKA_TOPICS = {
    "documents": "crawled-documents",
    "errors": "crawl-errors",
    "discovered": "discovered-urls",
    "completed": "crawl-completed",
}
# Whether new URLs are sent to the topic "discovered". It costs a question to Redis for each page.
KAFKA_DISCOVERED = False
# Whether messages of pages have their bodies and texts.
KAFKA_BODY = False
# Largest message in bytes; at most max.message.bytes of the topics. Bodies that do not fit are left
# out of their message.
KAFKA_MAX_MESSAGE_BYTES = 1_000_000  # bytes
# How the partition of a page is chosen: by "domain", so that one consumer gets a site in order, or
# by "url_hash", which spreads large sites.
KAFKA_PARTITION_BY = "domain"
# Seconds after which a message that no broker acknowledged counts as lost, and is sent again.
KAFKA_TIMEOUT = 20.0  # s
# Options of librdkafka, for TLS and SASL: {"security.protocol": "SASL_SSL", …}.
KAFKA_OPTIONS: dict[str, object] = {}
# Compression of bodies in MongoDB: "zstd", "zlib" or "none".
PAGES_CODEC = "zstd"
# Folder of the search index; None: "search" in CRAWL_DIR.
SEARCH_DIR: str | None = None
# Bytes of memory that `scrapy pages index` collects pages in before it writes them to the disk.
SEARCH_HEAP_BYTES = 64_000_000  # bytes
# Characters of a page's text that are indexed. A longer text is mostly a list or a log, and slows
# the snippets of every search that finds it.
SEARCH_TEXT_MAX = 100_000  # characters
# How long content stays in MongoDB: ages since its visit at which it moves to PAGES_TIER_URL, gets
# the class PAGES_TIER_COLD_CLASS there, and is deleted, as "7d/180d/5y". Units are s, m, h, d, w
# and y; "-" means never. Metadata stays. It happens by `scrapy pages tier`, and every hour while a
# crawl with recrawls runs. None: content stays in MongoDB.
PAGES_KEEP: str | None = None
# Object store for content that leaves MongoDB: "s3://bucket/prefix", "gs://…", "az://…" or
# "file:///…". It is also where moved content is read from, so keep it set.
PAGES_TIER_URL: str | None = None
# Storage class of cold content, such as "STANDARD_IA" or "GLACIER_IR". Content in a class that must
# be restored first (GLACIER, DEEP_ARCHIVE) cannot be read.
PAGES_TIER_COLD_CLASS: str | None = None
# Names of the response headers that a page keeps. None: all, up to 100 headers and 16 KB. []: only
# those that every page keeps: Content-Type, Content-Language, Cache-Control, ETag, Last-Modified,
# Server and Date.
PAGES_HEADERS: list[str] | None = None
# Lets each process of a fleet write its own file: FEEDS with "pages-%(process)s.jsonl".
FEED_URI_PARAMS = "crawler.pipelines.feeds.with_process"
# Maximum number of pages and bytes in one write to a sink.
STORE_BATCH_MAX = 200  # pages
STORE_BATCH_MAX_BYTES = 16_000_000  # bytes
# Seconds that a small batch waits for more pages: a write has a fixed cost of several pages.
STORE_LINGER = 0.2  # s
# MongoDB's write concern for pages; MONGO_URI overrides it. By default a page counts as stored when
# it is in the server's journal; {"w": "majority", "j": true} also survives failovers of a replica
# set.
STORE_WRITE_CONCERN: dict[str, object] = {"w": 1, "j": True}
# Near-duplicates: how texts are compared, fixed when the crawl is created. "minhash" goes by the
# share of three-word runs that two texts have in common; "simhash" finds only texts that are all
# but equal, and takes less than half of the memory (docs/tuning.md).
NEAR_BY = "simhash"
# With minhash: the similarity from which two texts are the same, 0.8 to 1. Texts that differ three
# times as much are not.
NEAR_SIMILARITY = 0.9  # share
# With simhash: the number of bits in which two texts may differ.
NEAR_DISTANCE = 3  # bits
# The minimum number of words of a text to be compared.
NEAR_MIN_WORDS = 50  # words
# Number of pages for which the index of texts is laid out, fixed when the crawl is created. All
# near-duplicates are found up to 16 times this number. Above 10 million simhash has more tables.
NEAR_PAGES = 1_000_000  # pages
# Tuning of -a recrawl=. The names, their meanings and the defaults of those not given are in
# crawler/scheduling/recrawl_policy.py (RecrawlTuning). An unknown name is an error.
RECRAWL: dict[str, float] = {}
# What to do with pages in other languages than those of -a languages=: "follow" (their links are
# followed with fewer points, and they are not stored), "store" (they are stored too) or "leave"
# (their links are not followed either).
OTHER_LANGUAGES = "follow"
# Focused crawls (docs/topics.md). Relevance, from 0 to 1, from which a page is on the topic of
# -a topic=: its links get more points, those of other pages fewer.
TOPIC_THRESHOLD = 0.7  # 0 to 1
# What to do with pages that are not: "store", "follow" (their links are followed, and they are not
# stored) or "leave" (their links are not followed either).
OFF_TOPIC = "store"
# Function of your own that scores pages instead of a topic, as "myproject.scoring.score".
PAGE_SCORER: str | None = None
# Maximum number of links followed from one page.
MAX_OUTLINKS = 6000  # links
# Whether to obey "nofollow" of pages and links, and "noindex" of pages (in meta robots tags,
# X-Robots-Tag headers and rel attributes).
OBEY_NOFOLLOW = True
OBEY_NOINDEX = True
# Fields that a page gets besides its text (docs/pages.md): "text_language" (detected; takes 30 µs),
# "main_text" and "markdown" (the article without menus and the like; takes 0.6 ms a page for both),
# "screenshot" (of pages that are rendered).
PAGE_FIELDS = ["text_language"]
# HTML elements whose text is left out, in addition to scripts and the like: ["nav", "footer"].
TEXT_WITHOUT: list[str] = []
# Whether to store the rel and text of a page's links, as `anchors` in its extra fields.
KEEP_ANCHORS = False

# Workers that read documents (PDF, Office, books; docs/documents.md), and as many that read pages
# above 400 KB: how many a process of the crawl has at most, and their niceness (19: they work only
# while nobody else does).
DOCUMENT_WORKERS = 2  # processes
DOCUMENT_NICE = 10  # niceness
# Seconds in which a document is read, its waiting not included, and bytes of memory for it. The
# record of one that needs more says so.
DOCUMENT_TIMEOUT = 20.0  # s
DOCUMENT_MEMORY = 512 * 1024 * 1024  # bytes
# Number of pages that are read of a document (sheets, slides, chapters).
DOCUMENT_PAGES = 500  # pages
# Bytes of documents that wait in memory to be read; above it no more are fetched, while pages are.
DOCUMENT_WAITING_BYTES = 40_000_000  # bytes
# Readers of your own for content types, which are then accepted: {"application/x-foo":
# "myproject.readers.read_foo"}, a function (body: bytes, url: str) -> dict of a document's fields.
# They run in those processes, and replace ours for the same type.
READERS: dict[str, str] = {}

# --- Pages that need a browser (docs/rendering.md) ------------------------------------------------
# Whether pages are rendered by a browser: "never", "auto" (those that gain from it) or "always".
# Requests with meta={"render": True} are rendered, those with False are not, whatever it is.
RENDER = "never"
# Program of the browser, a Chromium. None: the first of chromium, google-chrome … on PATH.
RENDER_BROWSER: str | None = None
# Browsers of a process, each of which renders one page at a time, and their niceness (19: they work
# only while nobody else does). Each takes 200 to 400 MB.
RENDER_BROWSERS = 2  # browsers
RENDER_NICE = 10  # niceness
# Seconds after which a page is taken as it is, and bytes of memory for a browser with its page.
RENDER_TIMEOUT = 10.0  # s
RENDER_MEMORY = 1024 * 1024 * 1024  # bytes
# How often a page is scrolled to its end, for lists that grow.
RENDER_SCROLL = 0  # times
# Kinds of parts that are fetched for a page. Others are "image", "font", "media" and "manifest".
RENDER_KINDS = ["script", "stylesheet", "xhr", "fetch"]
# Maximum number of requests for the parts of a page, and of bytes of a part.
RENDER_PARTS = 60  # requests
RENDER_PART_BYTES = 5 * 1024 * 1024  # bytes
# Domains from which no parts are fetched. None: those of crawler/rendering/trackers.txt.
RENDER_BLOCKED: list[str] | None = None
# Bytes of scripts and style sheets that a process keeps for all pages.
RENDER_CACHE_BYTES = 16 * 1024 * 1024  # bytes
# Where screenshots are kept if PAGE_FIELDS has "screenshot": a folder, or an object store as
# "s3://bucket/prefix". None: the folder "screenshots" in CRAWL_DIR.
RENDER_SCREENSHOTS: str | None = None

# --- The admin API and the dashboard ------------------------------------------------------------
# Whether each process serves them, and where: on the first free port of ADMIN_PORTS ports from
# ADMIN_PORT on, so that every process on a machine has its own and Prometheus can find them.
ADMIN_ENABLED = True
ADMIN_HOST = "127.0.0.1"
ADMIN_PORT = 8800  # port
ADMIN_PORTS = 100  # ports
# Token that gives full access. If neither is set, one is generated at the first start, in the file
# admin.token of CRAWL_DIR. To listen beyond loopback, set your own of 16 characters or more.
ADMIN_TOKEN = os.environ.get("ADMIN_TOKEN") or None
# File with tokens, one a line with its role and name, which is read again when it changes.
ADMIN_TOKEN_FILE = os.environ.get("ADMIN_TOKEN_FILE") or None
# Further host names under which browsers may use it, besides its address, localhost and the
# machine's name. Requests with other names are refused, which stops DNS rebinding.
ADMIN_HOSTS: list[str] = []

# Whether crawls of other projects with the add-on (addon.py) have the dashboard and the API, the
# live view and the summary, as those of this project always have.
ADDON_DASHBOARD = False

# --- What the user sees -------------------------------------------------------------------------
# Progress of the crawl: "live" (a view on the terminal) or "plain" (a line every PROGRESS_INTERVAL
# seconds), both with a summary at the end; "auto" (live if standard error is a terminal);
# or "off".
PROGRESS = "auto"
PROGRESS_INTERVAL = 5.0  # s
# File to which the summary is written as JSON, for example for the program that started the crawl.
SUMMARY_FILE: str | None = None
# Command that the summary shows to continue the crawl, if another program started this run.
RESUME_COMMAND: str | None = None

# Names of more Scrapy stats to export to Prometheus, as crawler_scrapy_stat.
METRICS_STATS: list[str] = []

# --- Scrapy: the engine -------------------------------------------------------------------------
# The frontier in the place of Scrapy's queues, and our HTTP client in the place of its handlers.
SCHEDULER = "crawler.scheduler.Scheduler"
DOWNLOAD_HANDLERS = {
    "http": "crawler.download.DownloadHandler",
    "https": "crawler.download.DownloadHandler",
    # A link must never read local files or reach other services.
    "file": None,
    "ftp": None,
    "s3": None,
    "data": None,
}
# Only the frontier decides when a host is contacted; Scrapy's own limits must not interfere.
CONCURRENT_REQUESTS = 64  # requests
CONCURRENT_REQUESTS_PER_DOMAIN = 64  # requests
DOWNLOAD_DELAY = 0.0  # s
AUTOTHROTTLE_ENABLED = False
# A page gives one item: more tasks for each response only cost time (1.3 of 2.1 ms).
CONCURRENT_ITEMS = 1  # items
# Maximum bytes of pages that are read or wait for their sinks; above it fetching pauses. Each page
# counts as 48 KB at least. A page holds about twice its bytes, so this bounds the memory in use.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 20_000_000  # bytes
# Seconds for a whole fetch.
DOWNLOAD_TIMEOUT = 30.0  # s
# Bytes after which a response is cut off, and from which one is logged (0: none).
DOWNLOAD_MAXSIZE = 10 * 1024 * 1024  # bytes
DOWNLOAD_WARNSIZE = 0  # bytes
# Scrapy's cookies: off, as they would stay in one process of a fleet.
COOKIES_ENABLED = False
# Maximum number of redirects that are followed from a URL.
REDIRECT_MAX_TIMES = 10  # redirects
# Both would be servers that execute Python code on request.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
# Each policy has one owner, so Scrapy's counterparts of our components are off.
ROBOTSTXT_OBEY = False
DOWNLOADER_MIDDLEWARES = {
    "crawler.middlewares.retries.Retries": 10,
    "crawler.middlewares.host_rules.HostRulesMiddleware": 80,
    # Before robots.txt: a host that does not exist has no rules to wait for.
    "crawler.middlewares.dns.Dns": 90,
    "crawler.middlewares.robots.Robots": 100,
    "crawler.middlewares.conditional.Conditional": 900,
    "crawler.middlewares.ip_delay.IpDelay": 940,
    # Last before politeness: a page that no browser can take now is put off before it is fetched.
    "crawler.middlewares.rendering.RenderingMiddleware": 945,
    "crawler.middlewares.politeness.PolitenessMiddleware": 950,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    # A meta refresh is treated as a link.
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    # Replaced by one that does not search for the Referer middleware.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "crawler.middlewares.redirects.Redirects": 600,
    # Replaced by one that does the same in half the time.
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
    # Last: feeds get an item as all other pipelines left it.
    "crawler.pipelines.feeds.Feeds": 10_000,
}
EXTENSIONS = {
    "crawler.extensions.components.Components": -20,
    "crawler.extensions.fastpath.FastPath": -10,
    "crawler.servers.connections.Servers": 0,
    "crawler.extensions.monitoring.Monitoring": 100,
    "crawler.extensions.progress.Progress": 500,
    "crawler.extensions.admin.Admin": 600,
    "crawler.extensions.tiers.Tiers": 700,
    # Progress logs instead of it.
    "scrapy.extensions.logstats.LogStats": None,
}
# Log one JSON object a line, the summary included, and show no live view. The environment variable
# LOG_JSON=1 does the same.
LOG_JSON = os.environ.get("LOG_JSON", "").lower() in ("1", "true", "yes")
# Lines about single URLs have the level DEBUG.
LOG_LEVEL = "INFO"
# Versions of libraries in the log, the format of Scrapy's lines, and its list of stats at the end.
LOG_VERSIONS: list[str] = []
LOG_FORMATTER = "crawler.monitoring.logs.LogFormatter"
STATS_DUMP = False
# Skips Scrapy's check for deprecated arguments, which a page would run forty times.
STATS_CLASS = "crawler.fastpath.stats.Stats"
