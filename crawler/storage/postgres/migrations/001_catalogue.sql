-- The catalogue of pages. docs/catalogue.md describes the columns.

-- One row for each URL of each crawl, as its last visit left it.
CREATE TABLE crawled_urls (
    crawl            text COLLATE "C" NOT NULL,
    -- 64 bits in hex, as everywhere else: MongoDB, Kafka, exports.
    url_hash         text COLLATE "C" NOT NULL,
    url              text NOT NULL,
    host             text COLLATE "C" NOT NULL,
    domain           text COLLATE "C" NOT NULL,
    depth            integer NOT NULL,
    -- url_hash of the page that the URL was found on; empty for seeds.
    parent           text COLLATE "C" NOT NULL,
    discovered_at    timestamptz,
    first_seen       timestamptz NOT NULL,
    last_crawled     timestamptz NOT NULL,
    next_crawl       timestamptz,
    -- Seconds between two visits.
    crawl_frequency  double precision,
    crawl_priority   smallint NOT NULL,
    visits           integer NOT NULL,
    changes          integer NOT NULL,
    http_status      integer NOT NULL,
    -- Why there is no content; empty if there is.
    reason           text NOT NULL,
    error_count      integer NOT NULL,
    last_error       text NOT NULL,
    is_active        boolean NOT NULL,
    robots_allowed   boolean NOT NULL,
    -- Of the last visit that gave a page.
    content_type     text NOT NULL,
    content_hash     text COLLATE "C" NOT NULL,
    -- Written by `scrapy pages rank`.
    page_rank        double precision,
    -- Fields that are rarely asked for, if they are not empty.
    details          jsonb NOT NULL,
    PRIMARY KEY (crawl, url_hash)
);

CREATE INDEX ON crawled_urls (url_hash);
CREATE INDEX ON crawled_urls (domain);
CREATE INDEX ON crawled_urls (last_crawled);
CREATE INDEX ON crawled_urls (next_crawl) WHERE is_active;
CREATE INDEX ON crawled_urls (crawl_priority, next_crawl);

-- One row for each URL that gave a page, as the last such visit left it.
CREATE TABLE documents (
    crawl            text COLLATE "C" NOT NULL,
    url_hash         text COLLATE "C" NOT NULL,
    crawled_at       timestamptz NOT NULL,
    title            text NOT NULL,
    description      text NOT NULL,
    language         text COLLATE "C" NOT NULL,
    content_hash     text COLLATE "C" NOT NULL,
    simhash          text COLLATE "C" NOT NULL,
    size_bytes       bigint NOT NULL,
    -- url_hash of the page that has the same content; empty if it is the first.
    duplicate_of     text COLLATE "C" NOT NULL,
    -- Where the body lies, by the name of the sink.
    places           jsonb NOT NULL,
    -- The last 20 contents: [{"at": …, "content_hash": …}].
    versions         jsonb NOT NULL,
    details          jsonb NOT NULL,
    PRIMARY KEY (crawl, url_hash)
);

CREATE INDEX ON documents (url_hash);

-- Links are most of a row. The usual compression, pglz, takes a third of the time of a write; lz4 is
-- faster, where the server has it (version 14 or later).
DO $$
BEGIN
    EXECUTE 'ALTER TABLE documents ALTER details SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN
    ALTER TABLE documents ALTER details SET STORAGE EXTERNAL;
END $$;

-- One row for each process of a crawl.
CREATE TABLE crawl_jobs (
    id               text COLLATE "C" PRIMARY KEY,
    -- Of the crawl.
    name             text COLLATE "C" NOT NULL,
    spider           text NOT NULL,
    machine          text NOT NULL,
    pid              bigint NOT NULL,
    user_name        text NOT NULL,
    worker           text NOT NULL,
    command          text NOT NULL,
    started          timestamptz NOT NULL,
    -- Last sign of life.
    seen             timestamptz NOT NULL,
    ended            timestamptz,
    state            text NOT NULL,
    reason           text NOT NULL,
    options          jsonb NOT NULL,
    pages            bigint NOT NULL,
    errors           bigint NOT NULL,
    exit_code        integer
);

CREATE INDEX ON crawl_jobs (name, id);

-- URLs that the frontier has no room for.
CREATE TABLE spilled (
    crawl            text COLLATE "C" NOT NULL,
    url_hash         text COLLATE "C" NOT NULL,
    entry            bytea NOT NULL,
    PRIMARY KEY (crawl, url_hash)
);

-- What robots.txt allowed and forbade, by host.
CREATE VIEW robots_cache AS
SELECT crawl, domain, host,
    count(*) FILTER (WHERE robots_allowed) AS urls_allowed,
    count(*) FILTER (WHERE NOT robots_allowed) AS urls_denied,
    max(last_crawled) FILTER (WHERE robots_allowed) AS last_allowed,
    max(last_crawled) FILTER (WHERE NOT robots_allowed) AS last_denied
FROM crawled_urls
GROUP BY crawl, domain, host;
