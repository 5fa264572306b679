"""Item pipelines: thin adapters, in this order.

    duplicates  marks pages whose content was stored before (dedup/)
    links       puts the links of a page into the frontier, in one batch (discovery/)
    recrawl     decides when a page is visited again (scheduling/recrawls.py)
    store       writes pages to MongoDB in batches (storage/)
    feeds       gives items to Scrapy's feeds before their leases are settled

An item is safe when `process_item` of the last one returned: only then middlewares/leases.py
settles the lease of its page. Who cannot keep an item now raises errors.NotStored, which costs its
URL no attempt. Owns no keys and no collections.

Public: the classes, by ITEM_PIPELINES of crawler/settings.py.
"""
