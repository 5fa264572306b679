# One image for crawler processes and for the admin API; servers are other containers.
FROM python:3.11-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /crawler

# Versions and hashes of all packages: `make lock` writes them.
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock

COPY scrapy.cfg ./
COPY crawler crawler

# A process that is taken over has no rights; /data is for tokens, logs and summaries.
RUN useradd --system --uid 10001 crawler && install -d -o crawler /data
USER crawler
ENV CRAWL_DIR=/data
VOLUME /data

# Both serve it: crawls at the first free port from ADMIN_PORT on, which in a container is 8800.
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8800/healthz', timeout=3)"]

# SIGTERM, which containers are stopped by, lets fetches finish and hands the rest back.
STOPSIGNAL SIGTERM
ENTRYPOINT ["scrapy"]
CMD ["crawl", "web"]
