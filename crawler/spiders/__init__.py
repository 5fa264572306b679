"""The generic spider `web`: every response becomes one Page.

It reads its arguments (config/spider_arguments.py), gives its seeds to the scheduler, reads pages
by parsing/ and sitemaps by parsing/sitemap.py. It knows nothing of Redis. Links are not followed by
the spider but by pipelines/links.py, in one batch for each page.

Spiders of your own may subclass it (`extract` adds fields), or be any Scrapy spider with the
add-on crawler.addon.FrontierAddon. Owns no keys.

Public: `web.WebSpider`.
"""
