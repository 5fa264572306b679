"""Topics: how well a page fits what a crawl is about, for focused crawls.

    model     a trained topic: scores texts, explains scores, and is a file of data
    training  trains a model from examples (needs scikit-learn, the extra `topic`)
    scorer    scores the pages of a crawl, by a model or by the user's own function

A crawl gets a scorer by `-a topic=FILE` or by the setting PAGE_SCORER. The spider gives pages their
`relevance`, and their links points for it (spiders/web.py). `scrapy topic` trains and explains
(commands/topic.py). Owns no keys.

Entry points: `scorer.page_scorer` in a crawl, `training.train`, `TopicModel.open`.
Public: the function that PAGE_SCORER names gets what docs/topics.md says.
"""
