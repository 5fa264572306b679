"""Item pipelines: thin adapters between Scrapy and the packages that do the work, in this order.

    duplicates  marks pages whose content is stored already (dedup/)
    links       adds the links of a page to the frontier, in one batch (discovery/)
    recrawl     decides when a page is visited again (scheduling/recrawls.py)
    store       gives pages to their sink (storage/)
    feeds       writes items to Scrapy's feeds before their leases are settled

An item is safe when `process_item` of the last pipeline has returned: only then
middlewares/leases.py settles the lease of its page. A pipeline that cannot keep an item now raises
errors.NotStored, which does not count as an attempt for its URL. Owns no keys and no collections.

Public: the classes, by ITEM_PIPELINES of crawler/settings.py.
"""
