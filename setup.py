"""For scrapyd-deploy, which builds an egg by `python setup.py`. The facts: pyproject.toml."""

from setuptools import setup

setup()
