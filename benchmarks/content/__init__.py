"""What do duplicates cost, and are the right pages found?

The time of a SimHash beside the simhash package's, the time and memory of content-seen in Redis,
and how well pages of the synthetic web with the same article are told from others.
"""
