"""For scrapyd-deploy, which builds its egg by `python setup.py`. The facts are in pyproject.toml."""

from setuptools import setup

setup()
