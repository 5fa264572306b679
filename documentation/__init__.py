"""The generated pages of the docs: what is read from the code can be neither missing nor wrong.

`python -m documentation` (`make reference`) writes them into docs/, where they are committed, so
that they can be read on GitHub too; a test fails when one is not what the code says. mkdocs.yml is
the site that `make docs` builds of all pages; `theme/` is what it has of its own.
"""
