"""Generic spider `web`: every response becomes one Page.

    web  the spider and its arguments (`-a name=value`): start from seeds and sitemaps, read pages

Pages are read by parsing/, sitemaps by parsing/sitemap.py. The spider knows nothing of Redis, and
does not follow links: pipelines/links.py does, in one batch for each page.

Your own spiders may subclass it (`extract` adds fields), or be any Scrapy spider with the add-on
crawler.addon.FrontierAddon. Owns no keys.

Public: `web.WebSpider`.
"""
